// The dispatcher as an operator catalog: schemas, tags, and evaluation of small constants.
#pragma once
#include "ir/op_catalog.h"

namespace graphopt::runtime {

/// The process's catalog over c10::Dispatcher; thread-safe, entries made on first use.
const ir::OpCatalog &dispatcherCatalog();

} // namespace graphopt::runtime
