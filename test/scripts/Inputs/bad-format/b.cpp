// As it should be.
int main() { return 0; }
