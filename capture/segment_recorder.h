// Runs operators and writes them down as rows of a new segment.
#pragma once
#include "capture/segment.h"
#include "capture/thread_probe.h"

#include <c10/util/flat_hash_map.h>

#include <functional>
#include <memory>
#include <string>

namespace graphopt::capture {

class SegmentRecorder {
public:
  struct Name {
    std::string text;
    bool isParameter = false, isBuffer = false;
  };
  using Namer = std::function<Name(const at::Tensor &)>;
  /// `owner` hears of accesses to results while the segment is being recorded.
  SegmentRecorder(PlaceholderOwner &owner, Namer namer, SettingsId settings);
  ~SegmentRecorder();

  /// Goes on after the first rows of a segment, which have run: `tensors` has, by value, the tensors of those
  /// values that are still to be met, `offsets` the storage offsets of all.
  void resume(const Segment &segment, size_t rows, const std::vector<at::Tensor> &tensors,
              const std::vector<int64_t> &offsets);
  /// Runs the operator and adds its row. Empty, or why it is none: the operator has run, and the segment ends
  /// before it. Errors of the operator pass through and leave no row.
  std::string add(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                  ThreadWord thread, torch::jit::Stack *stack, std::string module);
  /// Whether the tensor was made or written by the rows.
  bool isPending(const c10::TensorImpl &tensor) const;
  /// Tensors known here, alive, that hold the same memory.
  size_t ownersOf(const c10::StorageImpl *storage) const;
  bool knows(const c10::TensorImpl &tensor) const { return known_.find(&tensor) != known_.end(); }
  /// Whether memory or geometry of a known tensor was changed past the dispatcher.
  bool wasReplaced(const c10::TensorImpl &tensor) const;
  /// Whether the rows write memory that they did not make.
  bool writesLiveIns() const;
  /// A result was freed.
  void forget(const c10::TensorImpl &tensor) { known_.erase(&tensor); }
  bool isMadeHere(const c10::TensorImpl &tensor) const;
  size_t size() const { return segment_.rows.size(); }
  const Segment &segment() const { return segment_; }
  /// The segment; the recorder is done.
  Segment finish(std::string border);

private:
  struct Known {
    ValueId value;
    const c10::StorageImpl *storage; // at the time
    // Keeps the address unique. Results need none: they are placeholders, and say when they are freed. (A
    // weak reference would keep their version counter alive, and with it views' bases from being alone.)
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> hold;
    bool isAlive() const { return !hold || !hold->expired(); }
  };
  struct Family {
    ValueId family;
    c10::weak_intrusive_ptr<c10::StorageImpl> hold; // keeps the address unique
  };
  friend struct RecordingSink;
  ValueId operand(c10::TensorImpl &tensor, bool &isNew);
  enum class Memory { Known, New }; // whether families_ has it
  void know(const at::Tensor &tensor, ValueId id, bool isLiveIn, Memory memory);
  ValueId declare(const at::Tensor &tensor, bool isLiveIn, ValueId family, Memory memory);
  ValueId familyOf(const c10::StorageImpl *storage) const;
  void encode(Row &row, RowInfo &info, const torch::jit::Stack &stack);
  void takeWrites(RowInfo &info);
  std::string takeResults(RowInfo &info, torch::jit::Stack *stack);
  std::vector<std::pair<ValueId, at::Tensor>>
  weights(const OperatorFacts &facts, const torch::jit::Stack &stack, ThreadWord thread) const;
  void noteCasting(c10::DeviceType device);
  ValueId takeResult(const RowInfo &info, at::Tensor &tensor, std::string &trouble);
  std::string checkWritten(const RowInfo &info) const;
  void rollBack(size_t values);

  PlaceholderOwner &owner_;
  Namer namer_;
  Segment segment_;
  ska::flat_hash_map<const c10::TensorImpl *, Known> known_;
  ska::flat_hash_map<const c10::StorageImpl *, Family> families_;
  /// By value. The members of a family are a chain, the newest first.
  struct Member {
    const c10::TensorImpl *impl = nullptr; // while known_ says that it is still this value
    ValueId before = 0;
    ValueId newest = 0;     // of a family
    bool isWritten = false; // of a family
  };
  std::vector<Member> members_;
  /// Of the row being written: it gets copies of the right size.
  struct {
    std::vector<Word> words;
    std::vector<uint32_t> tensorWords;
    std::vector<LateScalar> late, integers;
  } scratch_;
};

} // namespace graphopt::capture
