// Tables for --timing and --stats: passes with the same name are added up, in order of first appearance.
#include "passes/manager.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::passes {
namespace {

struct Row {
  std::string name;
  size_t runs = 0, changed = 0;
  double milliseconds = 0;
  std::map<std::string, int64_t> statistics;
};

std::vector<Row> addedUp(const std::vector<PassReport> &reports) {
  std::vector<Row> rows;
  for (const PassReport &report : reports) {
    if (report.skipped)
      continue;
    auto at = std::find_if(rows.begin(), rows.end(), [&](const Row &row) { return row.name == report.name; });
    if (at == rows.end()) {
      at = rows.emplace(rows.end());
      at->name = report.name;
    }
    ++at->runs;
    at->changed += report.changed;
    at->milliseconds += report.milliseconds;
    for (const auto &[key, count] : report.statistics)
      at->statistics[key] += count;
  }
  return rows;
}

} // namespace

std::string timingTable(const std::vector<PassReport> &reports) {
  double total = 0;
  for (const Row &row : addedUp(reports))
    total += row.milliseconds;
  std::string text = fmt::format("{:>10} {:>6} {:>5} {:>8}  {}\n", "ms", "%", "runs", "changed", "pass");
  for (const Row &row : addedUp(reports))
    text += fmt::format("{:10.3f} {:6.1f} {:5} {:8}  {}\n", row.milliseconds,
                        total > 0 ? 100 * row.milliseconds / total : 0.0, row.runs, row.changed, row.name);
  return text + fmt::format("{:10.3f} {:6.1f} {:5} {:>8}  total\n", total, 100.0, reports.size(), "");
}

std::string statisticsTable(const std::vector<PassReport> &reports) {
  std::string text;
  for (const Row &row : addedUp(reports))
    for (const auto &[key, count] : row.statistics)
      text += fmt::format("{:8}  {}: {}\n", count, row.name, key);
  return text;
}

} // namespace graphopt::passes
