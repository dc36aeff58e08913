#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "nn/module.h"

namespace ringtape {

/// Which pipeline stage a rank has (docs/parallel.md).
struct PipelinePlace {
  int stage = 0;
  int stages = 1;
  int chunks = 1;  ///< parts of the model that each stage has
};

/// Divides `costs` into `parts` runs of neighbours, each of at least one cost, so that the largest sum of a
/// run is as small as possible. Returns where each run begins, followed by the number of costs. Throws Error
/// for fewer costs than parts.
std::vector<std::size_t> divide_evenly(const std::vector<double>& costs, std::size_t parts);

/// How a model that is a chain of (pipeline) units is divided over pipeline stages. Of stages * chunks parts,
/// part k is on stage k % stages. The model calls divide() and add() while it is made. Every rank makes every
/// unit, so that all draw the same random numbers, and drops the units of other stages at once.
class Stages {
 public:
  explicit Stages(const PipelinePlace& place);

  /// Divides units with these costs, such as FLOPs. Throws Error that names the flags if there are too few
  /// units.
  void divide(const std::vector<double>& costs);
  /// Whether this rank has the unit.
  bool has(std::size_t unit) const { return stage_of(unit) == place_.stage; }
  /// Records the parameters of `module`, which belongs to this unit and is called `name` in the model. Call
  /// it in the order of the whole model's parameters.
  void add(std::size_t unit, const std::string& name, Module& module);

  const PipelinePlace& place() const { return place_; }
  /// True once a model has called divide().
  bool are_divided() const { return !begins_.empty(); }
  /// The units of part k are begins()[k] to begins()[k + 1] - 1.
  const std::vector<std::size_t>& begins() const { return begins_; }

  /// A parameter of the whole model, and the stage that owns it. (The last stage may have a copy: tied
  /// weights.)
  struct Parameter {
    std::string name;
    int stage;
    int chunk;    ///< of that stage, whose forward uses it
    Shape shape;  ///< of the whole parameter, where ranks divide it
  };
  /// In the order of the whole model.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// A parameter of which another stage has a copy with equal values.
  struct TiedCopy {
    std::string name;
    int owner;  ///< the stage that owns it
    int stage;  ///< the stage that has the copy
    int chunk;  ///< of `stage`
  };
  const std::vector<TiedCopy>& copies() const { return copies_; }
  /// The stage of `unit` needs the parameter, which has been added: it gets a copy unless it is the owner.
  void add_copy(const std::string& name, std::size_t unit);
  /// The names of the parameters that a stage has, its copies included, in the order of the whole model.
  std::vector<std::string> names_of(int stage) const;
  /// Whether two stages have the parameter.
  bool is_copied(const std::string& name) const;
  /// The chunk of this rank that uses the parameter. Throws Error for an unknown name.
  int chunk_of(const std::string& name) const;
  /// A chunk of this rank as a module, whose forward hooks run around each forward through the chunk.
  Module& chunk(int number) const { return *chunks_[static_cast<std::size_t>(number)]; }

 private:
  std::size_t part_of(std::size_t unit) const;
  int stage_of(std::size_t unit) const;
  int chunk_of(std::size_t unit) const;

  PipelinePlace place_;
  std::vector<std::shared_ptr<Module>> chunks_;
  std::vector<std::size_t> begins_;
  std::vector<Parameter> parameters_;
  std::vector<TiedCopy> copies_;
};

}  // namespace ringtape
