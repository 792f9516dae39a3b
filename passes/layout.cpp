// Images of convolutions are kept with their channels last. A convolution's image and weight are brought into
// that order once, and what follows takes it over: how each result lies then is what its operator does when
// it is run alone on such operands (ir/pieces.h), so there are no rules of strides here. Operators that want
// the recorded order, and whoever sees a result from outside, get exactly that.
//
// An attempt runs on a copy of the graph. Where an operator does not do what the plan counted on, that is
// noted and the next attempt plans with it; each attempt notes something new, so this ends.
#include "passes/pass_list.h"

#include "ir/dim_list.h"
#include "passes/channels_last.h"
#include "passes/layout_plan.h"
#include "passes/regions.h"
#include "passes/sized_pieces.h"
#include "passes/unit.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

struct LayoutCounts {
  int64_t conversions = 0, ofWeights = 0, back = 0;
  bool hasChanged = false;
};

class Rewriter {
public:
  Rewriter(ir::Graph &graph, PassContext &context, ir::PieceSource &pieces, const LayoutPlan &plan,
           OrderFacts &facts)
      : graph_(graph), catalog_(context.catalog), pieces_(pieces), plan_(plan), facts_(facts) {}

  /// False: something was added to the facts, and the graph is to be thrown away.
  bool run() {
    for (ir::Op *op : graph_.body().ops()) {
      const size_t place = places_.size();
      places_[op] = place;
      if (!(plan_.taking.contains(op) ? take(op, place) : leave(op)))
        return false;
    }
    return true;
  }

  const LayoutCounts &counts() const { return counts_; }

private:
  // ---- operators

  /// As it was recorded, on operands as they were recorded.
  bool leave(ir::Op *op) {
    if (op->body())
      for (const ir::Value *written : overwrittenBy(*op, catalog_))
        if (recorded_.contains(written))
          return refuse(places_.at(written->def)); // else a conversion of it would be what is written
    std::vector<ir::Value *> operands;
    op->forEachValue([&](const ir::Operand &operand) {
      if (recorded_.contains(operand.value))
        operands.push_back(operand.value);
    });
    for (ir::Value *value : operands) {
      ir::Value *back = broughtBack(value, op);
      if (!back)
        return refuse(places_.at(value->def));
      replaceOperand(op, value, back);
    }
    if (op->computes())
      guessGradients(*op);
    return true;
  }

  bool take(ir::Op *op, size_t place) {
    const bool isEnding = facts_.ending.contains(place);
    bringOperands(op, isEnding);
    if (std::ranges::none_of(imagesOf(*op), [&](const ir::Value *image) { return isLast(*image); })) {
      guessGradients(*op); // one channel or one position: there is no order
      return true;
    }
    const std::vector<ir::Type> recorded = typesOf(*op);
    setTypes(op, isEnding ? recorded : withImagesLast(recorded));
    const std::optional<std::vector<ir::Type>> shown = ask(*op);
    if (!shown || !std::ranges::equal(*shown, recorded, [&](const ir::Type &now, const ir::Type &before) {
          return isSame(now, before) || (isImage(before) && isLast(now));
        }))
      return refuse(place);
    if (!isEnding && endsHere(*shown, recorded)) {
      facts_.ending.insert(place);
      return false;
    }
    setTypes(op, *shown);
    for (size_t i = 0; i < recorded.size(); ++i)
      if (!isSame((*shown)[i], recorded[i])) {
        recorded_[op->result(i)] = recorded[i];
        counts_.hasChanged = true;
      }
    return true;
  }

  bool refuse(size_t place) {
    facts_.refusing.insert(place);
    return false;
  }

  static std::vector<ir::Type> typesOf(const ir::Op &op) {
    std::vector<ir::Type> types;
    for (const ir::Value *result : op.results())
      types.push_back(result->type);
    return types;
  }

  /// What operators mostly make of images with their channels last: a first guess.
  static std::vector<ir::Type> withImagesLast(std::vector<ir::Type> types) {
    for (ir::Type &type : types)
      if (isImage(type))
        type = withChannelsLast(type);
    return types;
  }

  /// An image came out as it was recorded.
  bool endsHere(const std::vector<ir::Type> &shown, const std::vector<ir::Type> &recorded) const {
    for (size_t i = 0; i < shown.size(); ++i)
      if (isImage(recorded[i]) && orderMatters(recorded[i]) && !isLast(shown[i]))
        return true;
    return false;
  }

  void bringOperands(ir::Op *op, bool isEnding) {
    if (const std::optional<Convolution> convolution = convolutionOf(*op, catalog_))
      return bringTo(op, *convolution, isEnding);
    for (ir::Value *image : imagesOf(*op))
      if (!isLast(*image) && orderMatters(image->type))
        bring(image, op, {.copying = "aten.contiguous", .isWeight = false, .keepsGradient = true});
  }

  /// A convolution that was recorded with its channels last gives its weight's gradient so, as in eager.
  void bringTo(ir::Op *op, const Convolution &convolution, bool isEnding) {
    const bool wasLast = isLast(*convolution.input) && !recorded_.contains(convolution.input);
    if (!isLast(*convolution.input) && orderMatters(convolution.input->type))
      bring(convolution.input, op, {.copying = "aten.contiguous", .isWeight = false, .keepsGradient = true});
    if (isLast(*convolution.weight))
      return;
    const bool isInputLast = isLast(*convolutionOf(*op, catalog_)->input);
    if (orderMatters(convolution.weight->type))
      bring(convolution.weight, op,
            {.copying = "aten.contiguous", .isWeight = true, .keepsGradient = !wasLast});
    else if (!isInputLast && !isEnding && orderMatters(op->result()->type))
      // An image of one channel lies both ways: a copy of the weight says which is meant.
      bring(convolution.weight, op, {.copying = "aten.clone", .isWeight = true, .keepsGradient = true});
    else if (isInputLast && !wasLast)
      bring(convolution.weight, op, {.copying = "", .isWeight = true, .keepsGradient = true});
  }

  // ---- conversions

  struct Conversion {
    const char *copying; // the operator that does it; "": only the gradient is seen to
    bool isWeight, keepsGradient;
  };

  /// Exchanges the operand for one with channels last.
  void bring(ir::Value *value, ir::Op *user, const Conversion &conversion) {
    const uint32_t state = stateOf(*value, *user);
    ir::Value *&last = last_[{value, state, conversion.keepsGradient, conversion.copying}];
    if (!last) {
      last = conversion.keepsGradient ? withOwnGradient(value, user, state) : value;
      if (*conversion.copying) {
        const ir::NamedAttr format{"memory_format", channelsLastWord(value->type.rank())};
        last = convert(conversion.copying, last, {format}, withChannelsLast(value->type), user, state);
        ++(conversion.isWeight ? counts_.ofWeights : counts_.conversions);
      }
    }
    replaceOperand(user, value, last);
  }

  /// Gradients of what lies in the usual order lie so too: that of a view of fewer dims is copied on its way
  /// back, that of the conversion itself would not be.
  ir::Value *withOwnGradient(ir::Value *value, ir::Op *user, uint32_t state) {
    const bool isGradOff = std::ranges::any_of(graph_.states[state].ambient, [](const ir::NamedAttr &word) {
      return word.name == "grad" && word.value.isWord("off");
    });
    if (value->type.strides || isGradOff || !needsGradient(*value))
      return value;
    ir::Type flat = value->type;
    flat.sizes = {flat.sizes[0], 1};
    for (size_t dim = 1; dim < value->type.rank(); ++dim)
      flat.sizes[1] = flat.sizes[1] * value->type.sizes[dim];
    ir::Value *rows =
        convert("aten.flatten.using_ints", value,
                {{"start_dim", ir::Attr::integer(1)}, {"end_dim", ir::Attr::integer(-1)}}, flat, user, state);
    return convert("aten.view", rows, {{"size", ir::dimList(value->type.sizes)}}, value->type, user, state);
  }

  /// The value as it was recorded; nullptr when no operator gives exactly that.
  ir::Value *broughtBack(ir::Value *value, ir::Op *user) {
    const uint32_t state = stateOf(*value, *user);
    ir::Value *&back = back_[value];
    if (back)
      return back;
    const ir::Type &recorded = recorded_.at(value);
    const ir::Attr word = recorded.strides ? channelsLastWord(recorded.rank()) : ir::Attr::word("contiguous");
    const ir::NamedAttr format{"memory_format", word}, size{"size", ir::dimList(recorded.sizes)};
    for (const auto &[name, attr] :
         {std::pair{"aten.contiguous", format}, {"aten.view", size}, {"aten.clone", format}}) {
      ir::Value *made = convert(name, value, {attr}, recorded, user, state);
      if (isSame(made->type, recorded)) {
        counts_.back += orderMatters(recorded);
        return back = made;
      }
      graph_.erase(made->def);
    }
    return nullptr;
  }

  /// A call of one operand before `user`; the result has the type that the operator shows.
  ir::Value *convert(const char *name, ir::Value *value, std::vector<ir::NamedAttr> attrs,
                     const ir::Type &expected, ir::Op *user, uint32_t state) {
    ir::Type type = expected;
    type.grad = false;
    const ir::Mark mark = name == std::string_view("aten.clone") ? ir::Mark::None : ir::Mark::Alias;
    ir::Op *op = graph_.insertBefore(user, ir::Op::Kind::Call, name, {ir::Operand::of(value, mark)},
                                     std::move(attrs), {{value->name, type}});
    op->state = state;
    if (const auto shown = ask(*op))
      op->result()->type = shown->front();
    else
      op->result()->type = value->type; // it cannot be done
    counts_.hasChanged = true;
    return op->result();
  }

  /// Under the grad mode of what made the value, in the module that asks for it.
  uint32_t stateOf(const ir::Value &value, const ir::Op &user) {
    const ir::Op &maker = value.def ? *value.def : user;
    ir::OpState state = graph_.states[user.computes() ? user.state : maker.state];
    state.ambient = graph_.states[maker.state].ambient;
    std::erase_if(state.ambient,
                  [](const ir::NamedAttr &word) { return word.name != "grad" && word.name != "inference"; });
    return graph_.intern(state);
  }

  static void replaceOperand(ir::Op *op, ir::Value *from, ir::Value *to) {
    op->replaceUses(from, to);
    if (op->body())
      for (const auto &inner : *op->body())
        inner->replaceUses(from, to);
  }

  // ---- what operators show

  /// How the results lie; nothing when the operator does not run on such operands, or not alone.
  std::optional<std::vector<ir::Type>> ask(const ir::Op &op) {
    const Unit unit = unitOf(graph_, op, needsGrad_);
    const ir::ForwardPiece &piece = pieces_.forward(unit.graph);
    if (!piece.opaque.empty())
      return std::nullopt;
    const std::vector<ir::Operand> &returned = piece.graph.returnOp()->operands();
    std::vector<ir::Type> types;
    for (size_t i = 0; i < op.results().size(); ++i) {
      ir::Type type = op.result(i)->type;
      needsGrad_[op.result(i)] = piece.requiresGrad[i];
      if (returned[i].isValue()) {
        const ir::Type &shown = returned[i].value->type;
        if (shown.dtype != type.dtype || shown.rank() != type.rank())
          return std::nullopt;
        type.strides = shown.strides;
      }
      types.push_back(std::move(type));
    }
    return types;
  }

  /// Of an operator that nobody asks: what has derivatives and is made of what needs them.
  void guessGradients(const ir::Op &op) {
    bool any = false;
    op.forEachValue([&](const ir::Operand &operand) { any |= needsGradient(*operand.value); });
    any &= std::ranges::none_of(graph_.states[op.state].ambient, [](const ir::NamedAttr &word) {
      return (word.name == "grad" && word.value.isWord("off")) ||
             (word.name == "inference" && word.value.isWord("on"));
    });
    for (const ir::Value *result : op.results())
      needsGrad_[result] = any && result->type.isTensor() &&
                           (ir::isFloating(result->type.dtype) || ir::isComplex(result->type.dtype));
  }

  bool needsGradient(const ir::Value &value) const {
    const auto known = needsGrad_.find(&value);
    return known != needsGrad_.end() ? known->second : value.isDeclared() && value.type.grad;
  }

  /// Of an update the values inside as well.
  static void setTypes(ir::Op *op, const std::vector<ir::Type> &types) {
    for (size_t i = 0; i < types.size(); ++i) {
      op->result(i)->type = types[i];
      if (op->body())
        op->body()->terminator()->operands()[i].value->type = types[i];
    }
  }

  bool isLast(const ir::Type &type) const { return isChannelsLast(type, graph_.syms); }
  bool isLast(const ir::Value &value) const { return isLast(value.type); }

  bool isSame(const ir::Type &a, const ir::Type &b) const {
    return std::ranges::equal(
        a.stridesOrContiguous(), b.stridesOrContiguous(),
        [&](const ir::Dim &x, const ir::Dim &y) { return ir::provablyEqual(x, y, graph_.syms); });
  }

  ir::Graph &graph_;
  const ir::OpCatalog *catalog_;
  ir::PieceSource &pieces_;
  const LayoutPlan &plan_;
  OrderFacts &facts_;
  NeedsGrad needsGrad_;
  std::unordered_map<const ir::Op *, size_t> places_;        // in the body as it was
  std::unordered_map<const ir::Value *, ir::Type> recorded_; // of values that lie otherwise now
  // by value, grad mode and kind of conversion
  std::map<std::tuple<const ir::Value *, uint32_t, bool, std::string_view>, ir::Value *> last_;
  std::unordered_map<const ir::Value *, ir::Value *> back_;
  LayoutCounts counts_;
};

Regions wantedRegions(const PassContext &context) {
  const auto given = context.options.find("regions");
  if (given == context.options.end() || given->second == "worthwhile")
    return Regions::Worthwhile;
  if (given->second != "all")
    userError(
        fmt::format("option regions={} of layout is not understood: write worthwhile or all", given->second));
  return Regions::All;
}

/// Cotangents are said in the header for this graph alone: no operator's unit has them (as in lower).
class WithoutCotangents {
public:
  explicit WithoutCotangents(ir::Graph &graph) : graph_(graph), settings_(graph.settings) {
    std::erase_if(graph.settings, [](const ir::NamedAttr &word) {
      return word.name == "cotangents" || word.name == "vjp_gradients";
    });
  }
  ~WithoutCotangents() { graph_.settings = std::move(settings_); }
  WithoutCotangents(const WithoutCotangents &) = delete;
  WithoutCotangents &operator=(const WithoutCotangents &) = delete;

private:
  ir::Graph &graph_;
  std::vector<ir::NamedAttr> settings_;
};

/// One attempt; nothing when it taught something, and the graph is to be thrown away.
std::optional<LayoutCounts> attemptOn(ir::Graph &graph, PassContext &context, const LayoutPlan &plan,
                                      OrderFacts &facts) {
  const WithoutCotangents without(graph);
  SizedPieces sized(*context.pieces);
  Rewriter rewriter(graph, context, sized, plan, facts);
  return rewriter.run() ? std::optional(rewriter.counts()) : std::nullopt;
}

} // namespace

Changed layout(ir::Graph &graph, PassContext &context) {
  const Regions regions = wantedRegions(context);
  OrderFacts facts;
  while (true) {
    ir::Graph attempt = graph.clone();
    const LayoutPlan plan = planLayout(attempt, context.catalog, facts, regions);
    context.statistics["convolutions left as they are"] = static_cast<int64_t>(plan.convolutionsLeft);
    if (plan.taking.empty())
      return Changed::No;
    if (!context.pieces)
      userError("layout needs somebody who runs operators: text alone does not say how their results lie");
    const std::optional<LayoutCounts> counts = attemptOn(attempt, context, plan, facts);
    if (!counts)
      continue;
    if (!counts->hasChanged)
      return Changed::No;
    context.statistics["convolutions in channels-last"] = static_cast<int64_t>(plan.convolutions);
    context.statistics["conversions"] = counts->conversions + counts->back;
    context.statistics["conversions of weights"] = counts->ofWeights;
    graph = std::move(attempt);
    return Changed::Yes;
  }
}

} // namespace graphopt::passes
