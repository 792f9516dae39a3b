// Watches operators from outside of aten in two runs of a segment: whether they write what they do not
// declare, and whether they answer alike when asked alike.
#pragma once
#include "capture/replay_rows.h"

#include <unordered_map>

namespace graphopt::driver {

class RowWitness {
public:
  /// At most `budget` bytes of tensors are remembered; what does not fit is not compared.
  RowWitness(const capture::Segment &segment, size_t budget) : segment_(segment), budget_(budget) {}

  capture::RowObserver &first() { return first_; }
  capture::RowObserver &second() { return second_; }

  /// The first operator found out, and by what; null: none.
  const capture::OperatorFacts *liar() const { return liar_; }
  const std::string &text() const { return text_; }

private:
  struct Remembered {
    std::vector<at::Tensor> operands, results; // copies
    bool isWhole = true;                       // nothing was left out
    bool askedAlike = false;
  };
  struct First final : capture::RowObserver {
    explicit First(RowWitness &observed) : witness(observed) {}
    void before(size_t row, const torch::jit::Stack &arguments) override;
    void after(size_t row, const torch::jit::Stack &results) override;
    RowWitness &witness;
  };
  struct Second final : capture::RowObserver {
    explicit Second(RowWitness &observed) : witness(observed) {}
    void before(size_t row, const torch::jit::Stack &arguments) override;
    void after(size_t row, const torch::jit::Stack &results) override;
    RowWitness &witness;
    std::vector<at::Tensor> held, copies; // of the row that runs: its operands, and what was in them
  };
  bool watches(size_t row) const { return !segment_.infos[row].facts->isTrusted; }
  std::vector<at::Tensor> remember(const std::vector<at::Tensor> &tensors, bool &isWhole);
  void accuse(size_t row, const std::string &text);
  void checkOperands(size_t row);
  void checkResults(size_t row, const std::vector<at::Tensor> &results);

  const capture::Segment &segment_;
  size_t budget_;
  std::unordered_map<size_t, Remembered> rows_;
  const capture::OperatorFacts *liar_ = nullptr;
  std::string text_;
  First first_{*this};
  Second second_{*this};
};

} // namespace graphopt::driver
