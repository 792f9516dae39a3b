// The printer: one op a line, types at the definition, everything that a reader or the parser needs and
// nothing twice. Canonical: the same graph always gives the same bytes.
#include "ir/print.h"
#include "ir/quote.h"

#include <fmt/format.h>

namespace graphopt::ir {

namespace {
std::string operandsText(const std::vector<Operand> &operands);

std::string operandText(const Operand &operand) {
  switch (operand.kind) {
  case Operand::Kind::None:
    return "none";
  case Operand::Kind::Literal:
    return toString(operand.literal);
  case Operand::Kind::List:
    break;
  case Operand::Kind::Value: {
    std::string_view mark = operand.mark == Mark::Write ? "&mut " : operand.mark == Mark::Alias ? "&" : "";
    return std::string(mark) + valueText(operand.value->name);
  }
  }
  bool nested = false;
  for (const Operand &item : operand.items)
    nested |= item.kind == Operand::Kind::List;
  std::string inside = operandsText(operand.items);
  return nested ? "[ " + inside + " ]" : "[" + inside + "]";
}

std::string operandsText(const std::vector<Operand> &operands) {
  std::string out;
  for (const Operand &operand : operands)
    out += (out.empty() ? "" : ", ") + operandText(operand);
  return out;
}

/// "key=value" with `separator` between.
std::string pairsText(const std::vector<NamedAttr> &attrs, std::string_view separator) {
  std::string out;
  for (const NamedAttr &attr : attrs)
    out += fmt::format("{}{}={}", out.empty() ? "" : separator, keyText(attr.name), toString(attr.value));
  return out;
}

std::string attrsText(const std::vector<NamedAttr> &attrs) {
  return attrs.empty() ? "" : " {" + pairsText(attrs, ", ") + "}";
}

/// "%a, %b: f32[2], %n: int = "; neighbours of one type share it.
std::string resultsText(const Op &op) {
  std::string out;
  const std::vector<Value *> &results = op.results();
  for (size_t i = 0; i < results.size(); ++i) {
    out += (i == 0 ? "" : ", ") + valueText(results[i]->name);
    bool last = i + 1 == results.size();
    if (last || results[i + 1]->type != results[i]->type)
      out += ": " + toString(results[i]->type);
  }
  return results.empty() ? "" : out + " = ";
}

/// " text", or nothing for an empty one.
std::string after(std::string_view text) { return text.empty() ? "" : " " + std::string(text); }

/// The line of an op without results and body.
std::string headText(const Op &op) {
  std::string operands = operandsText(op.operands());
  std::string with = op.attrs.empty() ? "" : " with" + attrsText(op.attrs);
  switch (op.kind) {
  case Op::Kind::Call:
    return fmt::format("{}({}){}", opNameText(op.name), operands, attrsText(op.attrs));
  case Op::Kind::Group: {
    std::string kind = op.groupKind.empty() ? "" : keyText(op.groupKind);
    return fmt::format("group {}{} ({}){} {{", quoted(op.name), after(kind), operands, with);
  }
  case Op::Kind::Update:
    return fmt::format("update{} ({}){} {{", after(op.name.empty() ? "" : quoted(op.name)), operands, with);
  case Op::Kind::Vjp:
    return fmt::format("vjp ({}){} {{", operands, with);
  case Op::Kind::Redraw:
    return fmt::format("redraw ({}) {{", operands);
  case Op::Kind::Border:
    return fmt::format("border #{} {}{}{}", op.number, keyText(op.name), after(operands),
                       after(pairsText(op.attrs, " ")));
  case Op::Kind::Writeback:
    return fmt::format("writeback {} <- {}", operandText(op.operands().at(0)),
                       operandText(op.operands().at(1)));
  case Op::Kind::Return:
    return "return" + after(operands);
  case Op::Kind::Yield:
    return "yield" + after(operands);
  }
  return {};
}

/// Ops that the state lines speak about; the others end or mark, and run nothing.
bool hasState(const Op &op) { return op.computes(); }

std::string stateText(const OpState &state) {
  return fmt::format("scope {}{}{}", state.scopeGuessed ? "~" : "", quoted(state.scope),
                     attrsText(state.ambient));
}

class Printer {
public:
  std::string out;

  void op(const Op &op, size_t depth) {
    line(depth, resultsText(op) + headText(op));
    if (!op.body())
      return;
    block(*op.body(), depth + 1);
    line(depth, "}");
  }

  void graph(const Graph &graph) {
    states_ = &graph.states;
    header(graph);
    for (const Sym &sym : graph.syms)
      line(1, symText(sym));
    separate();
    for (const Value *value : graph.declarations())
      line(1, declarationText(*value));
    separate();
    for (const Guard &guard : graph.guards)
      line(1, print(guard));
    separate();
    block(graph.body(), 1);
    line(0, "}");
  }

private:
  const std::vector<OpState> *states_ = nullptr; // none when an op is printed alone
  bool sectionOpen_ = false;                     // something was printed since the last blank line
  uint32_t state_ = 0;

  void line(size_t depth, std::string_view text) {
    if (pendingBlank_ && text != "}")
      out += '\n';
    pendingBlank_ = false;
    sectionOpen_ = true;
    out.append(2 * depth, ' ').append(text).append("\n");
  }
  void separate() {
    pendingBlank_ |= sectionOpen_;
    sectionOpen_ = false;
  }
  bool pendingBlank_ = false;

  void header(const Graph &graph) {
    out = fmt::format("graph {} version={} stage={}", graphText(graph.name), graph.version,
                      toString(graph.stage));
    if (graph.stage == Stage::Captured)
      out += fmt::format(" form={}", toString(graph.form));
    out += fmt::format(" device={}{} {{\n", toString(graph.device), after(pairsText(graph.settings, " ")));
  }

  static std::string symText(const Sym &sym) {
    auto bound = [](int64_t value) {
      if (value == DimRange::kInf)
        return std::string("inf");
      return value == DimRange::kNegInf ? std::string("-inf") : std::to_string(value);
    };
    return fmt::format("sym {} in [{}, {}]", sym.name, bound(sym.range.lo), bound(sym.range.hi));
  }

  static std::string declarationText(const Value &value) {
    std::string out =
        fmt::format("{} {}: {}", toString(value.kind), valueText(value.name), toString(value.type));
    bool hasContent = value.kind == Value::Kind::HostVal || value.kind == Value::Kind::Const;
    if (!hasContent)
      return out;
    return out + " = " +
           (value.contentHash.empty() ? toString(value.content) : "file " + quoted(value.contentHash));
  }

  void block(const Block &block, size_t depth) {
    uint32_t outer = state_;
    for (const auto &op : block) {
      if (states_ && hasState(*op) && states_->at(op->state) != states_->at(state_)) {
        state_ = op->state;
        line(depth, stateText(states_->at(state_)));
      }
      this->op(*op, depth);
    }
    state_ = outer; // a body's state lines end with it
  }
};
} // namespace

std::string print(const Graph &graph) {
  Printer printer;
  printer.graph(graph);
  return std::move(printer.out);
}

std::string print(const Op &op) {
  Printer printer;
  printer.op(op, 0);
  printer.out.pop_back(); // the line end
  return std::move(printer.out);
}

std::string print(const Guard &guard) {
  std::string out = fmt::format("guard #{} {}", guard.number, keyText(guard.kind));
  if (!guard.operands.empty())
    out += "(" + operandsText(guard.operands) + ")";
  bool isType = std::holds_alternative<Type>(guard.expected);
  std::string expected =
      isType ? toString(std::get<Type>(guard.expected)) : toString(std::get<Attr>(guard.expected));
  return fmt::format("{} {} {}", out, toString(guard.cmp), expected);
}

} // namespace graphopt::ir
