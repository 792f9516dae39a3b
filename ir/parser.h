// The parser's class, shared by its two files: statements (parse.cpp) and what stands in them
// (parse_types.cpp).
//
// Recovery: after an error the rest of the statement sees the end of the text, so every rule ends by itself;
// nothing is built from it, and parsing goes on at the next line. Names that a failed statement would have
// defined are remembered, so that one mistake gives one message.
#pragma once
#include "ir/diag.h"
#include "ir/lexer.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace graphopt::ir {

class Parser {
public:
  explicit Parser(Diagnostics &diagnostics);
  std::vector<Graph> file();
  /// The whole text as one dim over these syms.
  Dim onlyDim(const std::vector<std::string> &syms);

private:
  // ---- tokens and errors (parse.cpp)
  Token take();
  bool at(std::string_view punct) const { return token_.is(punct); }
  bool atWord(std::string_view word) const { return token_.isWord(word); }
  bool accept(std::string_view punct);
  /// Takes the punctuation or reports that it was expected; `what` says what for: "to end the operands".
  void expect(std::string_view punct, std::string_view what);
  std::string expectName(Token::Kind kind, std::string_view what);
  /// A plain name or a quoted one.
  std::string expectKey(std::string_view what);
  int64_t expectInt(std::string_view what);
  int number(std::string_view what); ///< of a guard or border: 0 or more
  void unexpected(std::string_view expected);
  void error(Loc loc, std::string message, std::vector<Note> notes = {});
  /// Ends the statement without a message: one was given already.
  void fail();
  void recover();
  void advance();

  // ---- graphs and blocks (parse.cpp)
  std::optional<Graph> graph();
  void header();
  void setting(const std::string &key, Loc loc, const Attr &value);
  void block(Block &block, Loc open);
  void statement(Block &block);

  // ---- lines (parse_lines.cpp)
  void symLine();
  void declaration(Value::Kind kind);
  void guardLine();
  void scopeLine();

  // ---- operations (parse_ops.cpp)
  struct Result {
    std::string name;
    Loc loc;
    Type type;
  };
  void operation(Block &block);
  std::vector<Result> results();
  struct Head {
    Op::Kind kind = Op::Kind::Call;
    std::string name;
    std::string groupKind;
    int number = 0;
    std::vector<Operand> operands;
    std::vector<NamedAttr> attrs;
    Loc open; // of the body's brace
  };
  Head head();
  Head regionHead(Op::Kind kind);
  Head borderHead();
  Head writebackHead();
  void build(Block &block, const Head &head, const std::vector<Result> &results, Loc loc);
  bool define(const std::string &name, Loc loc);
  Note declaredHere(const Value &value) const;

  // ---- parts of statements (parse_types.cpp)
  Dim dim();
  Dim dimSum();
  Dim dimProduct();
  Dim dimFactor();
  Dim dimCall(bool isMod);
  std::vector<Dim> dims(std::string_view what);
  Attr literal();
  Attr literalOf(const Token &word);
  Attr complexLiteral();
  double complexPart();
  std::vector<Attr> literalList();
  std::vector<NamedAttr> attributes();
  NamedAttr attribute();
  Type type();
  Type tensorType(DType dtype);
  void setStrides(Type &type, std::vector<Dim> strides, Loc loc);
  Device device();
  std::vector<Operand> operandList(std::string_view close, std::string_view what);
  std::vector<Operand> bareOperands();
  Operand operand();
  Operand valueOperand();
  Value *use(const Token &name);
  bool deeper();

  Diagnostics &diagnostics_;
  Lexer lexer_;
  Token token_; // the one to decide on; the end of the text after an error
  Token ahead_;
  Token held_;     // the token that an error hides
  int line_ = 0;   // of the last token taken
  Loc afterTaken_; // where it ends
  size_t errors_ = 0;
  bool failed_ = false;
  bool stopped_ = false; // nothing sensible can follow: too many errors, an unclosed graph
  int depth_ = 0;        // of nested literals, dims and bodies
  int openAttrs_ = 0;    // braces of attributes that an error would leave open
  Graph *graph_ = nullptr;
  uint32_t state_ = 0;
  std::vector<const Block *> openBlocks_;
  std::unordered_map<std::string, Loc> syms_;
  std::unordered_map<std::string, Loc> pending_; // results of ops whose text is being read
  std::unordered_set<std::string> broken_;       // defined by statements that failed
};

} // namespace graphopt::ir
