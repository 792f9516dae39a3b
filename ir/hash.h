// A hash that is the same in every run and on every machine, for keys that reach files and for structural
// hashes.
#pragma once
#include <cstdint>
#include <string_view>

namespace graphopt::ir {

/// FNV-1a over what is added; each text is closed by its length, so "ab","c" and "a","bc" differ.
class Hasher {
public:
  void add(uint64_t value) {
    for (int i = 0; i < 8; ++i)
      addByte(static_cast<unsigned char>(value >> (8 * i)));
  }
  void add(std::string_view text) {
    for (char c : text)
      addByte(static_cast<unsigned char>(c));
    add(static_cast<uint64_t>(text.size()));
  }
  uint64_t value() const {
    uint64_t mixed = state_ ^ (state_ >> 32); // the low bits of FNV alone are weak
    return mixed * 0x9E3779B97F4A7C15ull;
  }

private:
  void addByte(unsigned char byte) { state_ = (state_ ^ byte) * 0x100000001B3ull; }
  uint64_t state_ = 0xCBF29CE484222325ull;
};

} // namespace graphopt::ir
