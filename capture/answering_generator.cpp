// The generator's table of virtual functions is exchanged for a copy in which some have a question before
// them. A class of our own would need the device's headers; the copy needs none. Where a function lies in the
// table is read off its member pointer, as the Itanium C++ ABI (2.3, "Member Function Pointers") lays those
// out.
#include "capture/answering_generator.h"

#include <graphopt/error.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace graphopt::capture {
namespace {

using Impl = c10::GeneratorImpl;

thread_local GeneratorListener *listener = nullptr;

/// More functions than the class of any generator has: what lies behind a table is read too, and not used.
constexpr size_t kFunctions = 48;
/// Before the address that objects hold: the offset to the whole object, and the type.
constexpr size_t kBefore = 2;

struct Table {
  const void *words[kBefore + kFunctions];
  const void *const *plain; ///< what it is a copy of
};

template <class Member> size_t placeOf(Member member) {
  uintptr_t word = 0;
  static_assert(sizeof(member) >= sizeof(word));
  std::memcpy(&word, &member, sizeof(word));
  GO_ASSERT(word & 1, "a generator's function is not virtual");
  return (word - 1) / sizeof(void *);
}

const void *const *tableOf(const Impl &generator) {
  return *reinterpret_cast<const void *const *const *>(&generator);
}

/// The function as the generator's class has it.
template <class Function, class Member> Function plain(const Impl &generator, Member member) {
  const auto *table = reinterpret_cast<const Table *>(tableOf(generator) - kBefore);
  return reinterpret_cast<Function>(const_cast<void *>(table->plain[placeOf(member)]));
}

c10::intrusive_ptr<c10::TensorImpl> getState(const Impl *self) {
  if (listener)
    listener->onStateAsked(const_cast<Impl &>(*self));
  return plain<c10::intrusive_ptr<c10::TensorImpl> (*)(const Impl *)>(*self, &Impl::get_state)(self);
}
void told() {
  if (listener)
    listener->onStateGiven();
}
void setState(Impl *self, const c10::TensorImpl &state) {
  told();
  plain<void (*)(Impl *, const c10::TensorImpl &)>(*self, &Impl::set_state)(self, state);
}
void setSeed(Impl *self, uint64_t seed) {
  told();
  plain<void (*)(Impl *, uint64_t)>(*self, &Impl::set_current_seed)(self, seed);
}
void setOffset(Impl *self, uint64_t offset) {
  told();
  plain<void (*)(Impl *, uint64_t)>(*self, &Impl::set_offset)(self, offset);
}
uint64_t newSeed(Impl *self) {
  told();
  return plain<uint64_t (*)(Impl *)>(*self, &Impl::seed)(self);
}

std::unique_ptr<Table> copyOf(const void *const *table) {
  auto copy = std::make_unique<Table>();
  std::memcpy(copy->words, table - kBefore, sizeof(copy->words));
  copy->plain = table;
  auto put = [&](auto member, const void *function) { copy->words[kBefore + placeOf(member)] = function; };
  put(&Impl::get_state, reinterpret_cast<const void *>(&getState));
  put(&Impl::set_state, reinterpret_cast<const void *>(&setState));
  put(&Impl::set_current_seed, reinterpret_cast<const void *>(&setSeed));
  put(&Impl::set_offset, reinterpret_cast<const void *>(&setOffset));
  put(&Impl::seed, reinterpret_cast<const void *>(&newSeed));
  return copy;
}

} // namespace

void setGeneratorListener(GeneratorListener *next) { listener = next; }
GeneratorListener *generatorListener() { return listener; }

void answerFor(const at::Generator &generator) {
  static std::mutex mutex;
  static auto &tables = *new std::map<const void *const *, std::unique_ptr<Table>>; // by the plain one
  std::lock_guard lock(mutex);
  Impl &impl = *generator.unsafeGetGeneratorImpl();
  const void *const *table = tableOf(impl);
  for (const auto &[plainTable, copy] : tables)
    if (table == copy->words + kBefore)
      return;
  std::unique_ptr<Table> &copy = tables[table];
  if (!copy)
    copy = copyOf(table);
  *reinterpret_cast<const void *const **>(&impl) = copy->words + kBefore;
}

} // namespace graphopt::capture
