// LibTorch keeps its switches in one object, at::Context, and tells nobody when one changes. Looking for a
// change compares that object's bytes with a copy; only when they differ are the switches themselves read, so
// a byte that means nothing (a lazily made member) costs one look and no more.
#include "capture/settings.h"

#include "capture/same_words.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <fmt/ranges.h>
#include <graphopt/error.h>

#include <algorithm>
#include <cstring>
#ifdef __SSE2__
#include <immintrin.h>
#endif
#include <mutex>
#include <unordered_map>

namespace graphopt::capture {
namespace {

/// Whether the thread's processor takes denormal numbers for zero.
int flushesDenormals() {
#ifdef __SSE2__
  return (_mm_getcsr() & 0x8040u) != 0;
#else
  return 0;
#endif
}

/// A switch: how to read and how to set it, as a number.
struct Switch {
  int (*get)(at::Context &);
  void (*set)(at::Context &, int);
};

template <at::Float32Backend Backend, at::Float32Op Op> int precisionOf(at::Context &context) {
  return static_cast<int>(context.float32Precision(Backend, Op));
}
template <at::Float32Backend Backend, at::Float32Op Op> void setPrecision(at::Context &context, int value) {
  context.setFloat32Precision(Backend, Op, static_cast<at::Float32Precision>(value));
}

constexpr Switch kSwitches[] = {
    {[](at::Context &c) { return c.deterministicAlgorithms() + 2 * c.deterministicAlgorithmsWarnOnly(); },
     [](at::Context &c, int v) { c.setDeterministicAlgorithms(v & 1, v & 2); }},
    {[](at::Context &c) { return int(c.deterministicFillUninitializedMemory()); },
     [](at::Context &c, int v) { c.setDeterministicFillUninitializedMemory(v); }},
    {[](at::Context &c) { return int(c.userEnabledCuDNN()); },
     [](at::Context &c, int v) { c.setUserEnabledCuDNN(v); }},
    {[](at::Context &c) { return int(c.benchmarkCuDNN()); },
     [](at::Context &c, int v) { c.setBenchmarkCuDNN(v); }},
    {[](at::Context &c) { return int(c.deterministicCuDNN()); },
     [](at::Context &c, int v) { c.setDeterministicCuDNN(v); }},
    {[](at::Context &c) { return int(c.userEnabledMkldnn()); },
     [](at::Context &c, int v) { c.setUserEnabledMkldnn(v); }},
    {[](at::Context &c) { return int(c.deterministicMkldnn()); },
     [](at::Context &c, int v) { c.setDeterministicMkldnn(v); }},
    {[](at::Context &c) { return int(c.userEnabledNNPACK()); },
     [](at::Context &c, int v) { c.setUserEnabledNNPACK(v); }},
    {[](at::Context &c) { return int(c.userEnabledFlashSDP()); },
     [](at::Context &c, int v) { c.setSDPUseFlash(v); }},
    {[](at::Context &c) { return int(c.userEnabledMemEfficientSDP()); },
     [](at::Context &c, int v) { c.setSDPUseMemEfficient(v); }},
    {[](at::Context &c) { return int(c.userEnabledMathSDP()); },
     [](at::Context &c, int v) { c.setSDPUseMath(v); }},
    {[](at::Context &c) { return int(c.userEnabledCuDNNSDP()); },
     [](at::Context &c, int v) { c.setSDPUseCuDNN(v); }},
    {[](at::Context &c) { return int(c.userEnabledOverrideableSDP()); },
     [](at::Context &c, int v) { c.setSDPUseOverrideable(v); }},
    {[](at::Context &c) { return int(c.allowFP16BF16ReductionMathSDP()); },
     [](at::Context &c, int v) { c.setAllowFP16BF16ReductionMathSDP(v); }},
    {precisionOf<at::Float32Backend::CUDA, at::Float32Op::MATMUL>,
     setPrecision<at::Float32Backend::CUDA, at::Float32Op::MATMUL>},
    {precisionOf<at::Float32Backend::CUDA, at::Float32Op::CONV>,
     setPrecision<at::Float32Backend::CUDA, at::Float32Op::CONV>},
    {precisionOf<at::Float32Backend::CUDA, at::Float32Op::RNN>,
     setPrecision<at::Float32Backend::CUDA, at::Float32Op::RNN>},
    {precisionOf<at::Float32Backend::MKLDNN, at::Float32Op::MATMUL>,
     setPrecision<at::Float32Backend::MKLDNN, at::Float32Op::MATMUL>},
    {precisionOf<at::Float32Backend::MKLDNN, at::Float32Op::CONV>,
     setPrecision<at::Float32Backend::MKLDNN, at::Float32Op::CONV>},
    {precisionOf<at::Float32Backend::MKLDNN, at::Float32Op::RNN>,
     setPrecision<at::Float32Backend::MKLDNN, at::Float32Op::RNN>},
    {[](at::Context &c) { return int(c.allowFP16ReductionCuBLAS()); },
     [](at::Context &c, int v) { c.setAllowFP16ReductionCuBLAS(v != 2, v == 0); }},
    {[](at::Context &c) { return int(c.allowBF16ReductionCuBLAS()); },
     [](at::Context &c, int v) { c.setAllowBF16ReductionCuBLAS(v != 2, v == 0); }},
    {[](at::Context &c) { return int(c.allowFP16AccumulationCuBLAS()); },
     [](at::Context &c, int v) { c.setAllowFP16AccumulationCuBLAS(v); }},
    {[](at::Context &) { return at::get_num_threads(); },
     [](at::Context &, int v) { at::set_num_threads(v); }},
    {[](at::Context &) { return int(c10::get_default_dtype_as_scalartype()); },
     [](at::Context &, int v) {
       c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(v)));
     }},
    {[](at::Context &) { return flushesDenormals(); },
     [](at::Context &, int v) { at::Context::setFlushDenormal(v != 0); }},
};
constexpr size_t kCount = std::size(kSwitches);

using Values = std::array<int, kCount>;

Values read() {
  Values values;
  for (size_t i = 0; i < kCount; ++i)
    values[i] = kSwitches[i].get(at::globalContext());
  return values;
}

struct Known {
  std::mutex mutex;
  std::vector<Values> all;
};
Known &known() {
  static Known &one = *new Known;
  return one;
}

SettingsId numberOf(const Values &values) {
  std::lock_guard lock(known().mutex);
  auto &all = known().all;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] == values)
      return static_cast<SettingsId>(i);
  all.push_back(values);
  return static_cast<SettingsId>(all.size() - 1);
}

void apply(SettingsId id) {
  Values wanted;
  {
    std::lock_guard lock(known().mutex);
    wanted = known().all.at(id);
  }
  const Values now = read();
  for (size_t i = 0; i < kCount; ++i)
    if (wanted[i] != now[i])
      kSwitches[i].set(at::globalContext(), wanted[i]);
}

using PrecisionKey = std::pair<at::Float32Backend, at::Float32Op>;
using Precisions = std::unordered_map<PrecisionKey, at::Float32Precision, c10::hash<PrecisionKey>>;
using PrecisionsMember = Precisions at::Context::*;
/// Names the private member: an explicit instantiation is allowed to.
struct PrecisionsTag {
  friend PrecisionsMember memberOf(PrecisionsTag);
};
template <class Tag, PrecisionsMember Member> struct ExposePrecisions {
  friend PrecisionsMember memberOf(Tag) { return Member; }
};
template struct ExposePrecisions<PrecisionsTag, &at::Context::fp32_precision>;

/// These lie in a table beside at::Context, where a look at its bytes does not reach; here as one word.
uint64_t readPrecisions() {
  uint64_t word = 0;
  for (const auto &[key, precision] : at::globalContext().*memberOf(PrecisionsTag{}))
    word = word << 2 | static_cast<uint64_t>(precision);
  return word;
}

const char *contextBytes() { return reinterpret_cast<const char *>(&at::globalContext()); }

/// Where in at::Context a switch lies: found by turning it, and turning it back.
size_t offsetOf(void (*turn)(at::Context &)) {
  const std::vector<char> before(contextBytes(), contextBytes() + sizeof(at::Context));
  turn(at::globalContext());
  const auto [first, second] = std::mismatch(before.begin(), before.end(), contextBytes());
  turn(at::globalContext());
  return static_cast<size_t>(first - before.begin());
}

/// Where in at::Context its switches begin: as many words from there hold all of them.
constexpr size_t kSwitchWords = 16;
const char *findSwitches() {
  constexpr size_t kPast = 32; // preferred backends come after the last switch looked for
  size_t first = offsetOf([](at::Context &c) { c.setUserEnabledCuDNN(!c.userEnabledCuDNN()); });
  size_t last = offsetOf([](at::Context &c) { c.setUserEnabledNNPACK(!c.userEnabledNNPACK()); });
  GO_ASSERT(first < last && last + kPast <= first + kSwitchWords * 8 &&
                first + kSwitchWords * 8 <= sizeof(at::Context),
            "at::Context is not laid out as in LibTorch 2.11");
  return contextBytes() + first;
}
const char *const switches = findSwitches();

} // namespace

SettingsProbe::SettingsProbe() : bytes_(kSwitchWords * 8) { readAgain(); }

bool SettingsProbe::isUnchanged() const {
  return sameWords<kSwitchWords>(bytes_.data(), switches) && denormals_ == flushesDenormals() &&
         threads_ == at::get_num_threads() && dtype_ == c10::get_default_dtype_as_scalartype();
}

void SettingsProbe::refresh() {
  if (!isUnchanged() || precisions_ != readPrecisions())
    readAgain();
}

SettingsId SettingsProbe::readAgain() {
  id_ = numberOf(read());
  precisions_ = readPrecisions();
  threads_ = at::get_num_threads();
  denormals_ = flushesDenormals();
  dtype_ = c10::get_default_dtype_as_scalartype();
  std::memcpy(bytes_.data(), switches, bytes_.size());
  return id_;
}

std::string switchesText() { return fmt::format("{}/{}", fmt::join(read(), "."), readPrecisions()); }

SettingsOf::SettingsOf(SettingsId id, SettingsId now) : wanted_(id), before_(now) {
  if (wanted_ != before_)
    apply(wanted_);
}

SettingsOf::~SettingsOf() {
  if (wanted_ != before_)
    apply(before_);
}

} // namespace graphopt::capture
