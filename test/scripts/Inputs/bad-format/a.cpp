// Indented by three.
int main() {
   return 0;
}
