// The public face of graphopt: everything a program includes.
#pragma once
#include <graphopt/compile.h>
#include <graphopt/dynamic.h>
#include <graphopt/error.h>
#include <graphopt/explain.h>
#include <graphopt/options.h>
#include <graphopt/stance.h>
#include <graphopt/tree.h>
