#!/usr/bin/env python3
"""Changes data, tensor, sequence, context and pipeline parallelism and ZeRO in one place at a time, and runs their tests: each change must fail one of them.

    tests/dist/change_parallel.py [--only TEXT] [--first N]   tries the changes whose description contains TEXT, from
                                                             number N on, counted from 0 (all: two hours or three)
    tests/dist/change_parallel.py --fits                     only checks that each change still finds its place in the sources

A change removes a collective, a scale factor, an index of a part or a sum, or replaces it with a likely mistake. A change that
no test notices is listed, and the exit status is 1. The work is done on a copy of the source tree, on 2 and 4 ranks, and on 2
whose results come late.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from removal import ROOT, copy_tree, first_failure  # noqa: E402

OPS, SEQUENCE, LAYERS = "dist/tensor_parallel_ops.cpp", "dist/sequence_parallel_ops.cpp", "dist/tensor_parallel.cpp"
LOSS, EMBEDDING = "kernels/cross_entropy_shard.cu", "kernels/embedding.cu"
UNITS, ARENA, EXCHANGE = "dist/unit_values.cpp", "nn/arena.cpp", "dist/shard_exchange.cpp"
RING, CONTEXT, DROPOUT, ATTENTION = "dist/ring_attention.cpp", "nn/context_part.cpp", "autograd/dropout.cpp", "kernels/attention_block.h"
PIPELINE, SCHEDULE, PARTS, STAGES = "dist/pipeline.cpp", "dist/pipeline_schedule.cpp", "dist/stage_parts.cpp", "nn/stages.cpp"
PLACES, BUCKETS, PARALLEL = "nn/parameter_units.cpp", "dist/gradient_buckets.cpp", "dist/data_parallel.cpp"
MESH, BUFFERS, REDUCER = "dist/mesh.cpp", "dist/bucket_buffers.cpp", "dist/zero1_reducer.cpp"
UPDATE, STATE, READS, SLICES, REPLICAS = ("train/update.cpp", "train/training_state.cpp", "data/context_dataset.cpp",
                                          "nn/shard_layout.cpp", "dist/verify_replicas.cpp")
TAGS = ["tensor", "zero", "stages", "context", "plan", "mesh", "ddp", "train", "ring", "slow_link", "every_mesh"]
ALL = ",".join(f"[{tag}]" for tag in TAGS)
# The tests that most likely notice a change of a file; they run first, to save time.
TAG_OF = {OPS: "[tensor]", SEQUENCE: "[tensor]", LAYERS: "[tensor]", LOSS: "[tensor]", EMBEDDING: "[tensor]", UNITS: "[zero]",
          EXCHANGE: "[zero]", RING: "[context]", CONTEXT: "[context]", PIPELINE: "[stages]", SCHEDULE: "[stages]",
          PARTS: "[stages]", STAGES: "[stages]", MESH: "[mesh]", BUFFERS: "[zero]", REDUCER: "[zero]",
          "dist/zero2_reducer.cpp": "[zero]", "dist/optimizer_state.cpp": "[zero]", "dist/comm_hook.cpp": "[ddp]",
          "dist/compress_hook.cpp": "[ddp]", "dist/model_parts.cpp": "[tensor]", UPDATE: "[train]", STATE: "[train]",
          "train/evaluation.cpp": "[train]", READS: "[context]", SLICES: "[zero]", REPLICAS: "[tensor]", PARALLEL: "[ddp]",
          "dist/ring_all_reduce.cpp": "[ring]", "dist/gather_text.cpp": "[slow_link]"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]

# What is changed, the file, the text (its first occurrence), and its replacement.
CHANGES = [
    ("mesh: data and context ranks are all", MESH, ": split_along(world_, sizes_, {MeshDimension::data, MeshDimension::context});",
     ": world_;"),
    ("mesh: lines of other places have one number", MESH, "step *= sizes.along(dimension);", ""),
    ("gradients added up, without a mean", "dist/comm_hook.cpp", "comm.all_reduce(bucket, ReduceOp::mean)",
     "comm.all_reduce(bucket, ReduceOp::sum)"),
    ("compression: scaled by the sum of the ranks' largest gradients", "dist/compress_hook.cpp",
     "comm.all_reduce(sent.largest, ReduceOp::max)", "comm.all_reduce(sent.largest, ReduceOp::sum)"),
    ("each rank begins with its own values", PARALLEL, "comm_->broadcast(arena.values(), 0).wait();", ""),
    ("a second DataParallel begins with rank 0's values of other ranks' slices", PARALLEL,
     "arena.gather_values();  // out of date if another DataParallel has trained it", ""),
    ("a window of this rank's targets", PARALLEL, "return sum_over_ranks(*comm, own);", "return own;"),
    ("an evaluation's loss of a rank's samples", "train/evaluation.cpp", "loss = sum_over_ranks(comm, static_cast<float>(loss));", ""),
    ("clipping after each micro-batch: of the mean", UPDATE, "!reduces || options_.optimizer.clip_each_micro_batch", "!reduces"),
    ("the same random numbers on all data ranks", "train/training_run.cpp", "static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u",
     "static_cast<std::uint64_t>(0 * rank)"),
    ("nobody waits while the first rank writes", "train/training_run.cpp",
     "comm_->barrier(Seconds(options_.distribution.comm_timeout + seconds + std::floor(seconds_of_files())));", "static_cast<void>(seconds);"),
    ("copy_to_region: no sum of the gradients", OPS, "comm->all_reduce(dy, ReduceOp::sum).wait();", ""),
    ("copy_to_region: a mean", OPS, "comm->all_reduce(dy, ReduceOp::sum).wait();",
     "comm->all_reduce(dy, ReduceOp::mean).wait();"),
    ("reduce_from_region: no sum", OPS, "comm->all_reduce(x, ReduceOp::sum).wait();", ""),
    ("reduce_from_region: a mean", OPS, "comm->all_reduce(x, ReduceOp::sum).wait();",
     "comm->all_reduce(x, ReduceOp::mean).wait();"),
    ("reduce_from_region: every rank adds the bias before the sum", OPS,
     "comm->all_reduce(x, ReduceOp::sum).wait();\n"
     "  if (added.defined()) bias_add(stream_of(x), x.dtype(), added.raw(), x.raw(), rows, columns, columns);\n",
     "if (added.defined()) bias_add(stream_of(x), x.dtype(), added.raw(), x.raw(), rows, columns, columns);\n"
     "  comm->all_reduce(x, ReduceOp::sum).wait();\n"),
    ("reduce_from_region: no gradient of the bias", OPS,
     "sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, rows, columns, 1.0, to.dtype(), to.raw(),\n          true);",
     ""),
    ("reduce_from_region: gradients of unused positions are stale", OPS, "if (!dadded.accumulate) fill(", "if (false) fill("),
    ("cross-entropy: no gather of the statistics", OPS, "comm->all_gather(own, all).wait();", ""),
    ("cross-entropy: statistics of the first rank alone", OPS, "all.raw(), comm->size(), stats.raw()", "all.raw(), 1, stats.raw()"),
    ("cross-entropy: classes from 0", LAYERS, "targets, own.first, vocabulary_", "targets, 0, vocabulary_"),
    ("cross-entropy: maxima of the ranks not compared", LOSS, "of_rank[1] * softmax_exp(of_rank[0] - max)", "of_rank[1]"),
    ("cross-entropy: the last rank's target logit", LOSS, "logit += of_rank[2];", "logit = of_rank[2];"),
    ("cross-entropy: no divisor of the loss", LOSS, "total / p.divisor", "total"),
    ("cross-entropy: no divisor of the gradient", LOSS, "*grad_loss / static_cast<A>(p.divisor)", "*grad_loss"),
    ("cross-entropy: no upstream gradient", LOSS, "*grad_loss / static_cast<A>(p.divisor)", "A{1} / static_cast<A>(p.divisor)"),
    ("cross-entropy: ignored targets have a gradient", LOSS, "if (!counts(p, target)) {", "if (false) {"),
    ("cross-entropy: target logit of class 0's rank", LOSS, "own = target - p.first_class;\n    const bool",
     "own = target;\n    const bool"),
    ("cross-entropy: gradient of class 0's rank", LOSS, "own = target - p.first_class;\n    const A", "own = target;\n    const A"),
    ("embedding: rows from token 0", EMBEDDING, "own = token - p.first_token;", "own = token;"),
    ("embedding: the first rank's rows everywhere", LAYERS, "part_of_block(vocabulary_, rank(), ranks()).first",
     "part_of_block(vocabulary_, 0, ranks()).first"),
    ("embedding: gradient of rows from token 0", EMBEDDING, "token = tokens[row] - p.first_token;", "token = tokens[row];"),
    ("column layer: its input does not enter", LAYERS, "linear(border_.enter(x), *weight_", "linear(x, *weight_"),
    ("row layer: its output does not leave", LAYERS,
     "border_.leave(linear(x, *weight_), bias_ == nullptr ? Tensor() : *bias_)",
     "linear(x, *weight_, bias_ == nullptr ? Tensor() : *bias_)"),
    ("untied logits: their input does not enter", LAYERS, "{ return linear(border_.enter(x), *weight_); }", "{ return linear(x, *weight_); }"),
    ("logits: their input does not enter", LAYERS, "linear(Border{comm_, sequence_}.enter(x), weight)", "linear(x, weight)"),
    ("queries, keys and values as one block", "nn/transformer.cpp", "return {options.width, keys, keys};",
     "return {options.width + 2 * keys};"),
    ("masks: heads count from 0 on every rank", "nn/transformer.cpp", "first_head_(layers.rank() * options_.heads)",
     "first_head_(0)"),
    ("masks: heads of a rank only", "nn/transformer.cpp", ".all_heads = all_heads_,", ""),
    ("parts: those of rank 0 everywhere", "nn/parameter_shard.cpp", "size * rank / ranks;", "size * 0 / ranks;"),
    ("parts: a whole is made of one rank's", "dist/model_parts.cpp", "shards.back().rank = rank;", "static_cast<void>(rank);"),
    ("weights of the first rank in all parts", STATE, "mesh_.data_and_context()->broadcast(tensor, 0)",
     "mesh_.world()->broadcast(tensor, 0)"),
    ("arena: room for a rank's own part", ARENA, "largest_part(parameter), kTileAlignment", "parameter.elements(), kTileAlignment"),
    ("norm: what all ranks have counts on each", "nn/arena.cpp", "return !division_ ||", "return true || !division_ ||"),
    ("norm: no sum over the ranks", "optim/clip.cpp", "if (arena.division()) (is_max", "if (false) (is_max"),
    ("norm: largest elements are added up", "optim/clip.cpp", "(is_max ? arena.division()->max : arena.division()->sum)",
     "arena.division()->sum"),
    ("clipping in memory: only what counts in the norm", "optim/clip.cpp", "problem.has_grad = arena.has_grad();", ""),
    ("LAMB and LARS: no sum over the ranks", "optim/optimizer.cpp", "arena_.division()->sum(x);", ""),
    ("LAMB and LARS: what all ranks have counts on each", "optim/optimizer.cpp", "if (!arena_.counts(static_cast<std::size_t>(i))) clear(row_of(i));",
     ""),
    ("all_gather_tokens: no gather", SEQUENCE, "comm.all_gather(x, by_rank).wait();", ""),
    ("all_gather_tokens: parts in the order of ranks, not of sequences", SEQUENCE, "copy_parts(all, by_rank, false);",
     "copy_rows(stream_of(all), all.dtype(), by_rank.raw(), 1, all.raw(), 1, all.elements(), 1, false);"),
    ("reduce_scatter_tokens: a mean", SEQUENCE, "comm.reduce_scatter(by_rank, own, ReduceOp::sum)",
     "comm.reduce_scatter(by_rank, own, ReduceOp::mean)"),
    ("reduce_scatter_tokens: parts of the order of sequences", SEQUENCE, "copy_parts(x, by_rank, true);",
     "copy_rows(stream_of(x), x.dtype(), x.raw(), 1, by_rank.raw(), 1, x.elements(), 1, false);"),
    ("reduce_scatter_tokens: positions of rank 0", SEQUENCE, "is_bias ? 0 : comm->rank() * columns", "0"),
    ("reduce_scatter_tokens: gradients of other positions are stale", SEQUENCE, "if (!target.accumulate) fill(", "if (false) fill("),
    ("dropout of tokens: the mask of a sequence's first tokens", DROPOUT, "(b * tokens + run.first) * width", "b * tokens * width"),
    ("dropout of tokens: the first sequence's mask", DROPOUT, "(b * tokens + run.first) * width", "run.first * width"),
    ("dropout of tokens: takes a rank's counters only", DROPOUT, "ceil_div(batch * tokens * width, 4)", "ceil_div(batch * own * width, 4)"),
    ("dropout of tokens: rank 0's part", "nn/layers.cpp", "first = part_ * own", "first = 0"),
    ("context: tokens of the rank alone", "nn/layers.cpp", "of_context * context_->ranks", "of_context"),
    ("context: dropout as if a rank's tokens were all", "nn/layer_factory.cpp", "if (context_ != nullptr) return", "if (false) return"),
    ("context: neighbouring chunks", "nn/context_part.h", "2 * ranks - 1 - of_rank", "of_rank + ranks"),
    ("context: a part of the tokens begins at its chunk", CONTEXT, "begin - half * size, end - begin", "0, end - begin"),
    ("context: learned positions from 0", "nn/gpt.cpp", "if (part != nullptr && wpe_ != nullptr)", "if (false)"),
    ("context: rotary positions from 0", "nn/transformer.cpp", "if (context_ != nullptr) {", "if (false) {"),
    ("context: attention among a rank's tokens", "nn/transformer.cpp", "context_ == nullptr ? attend(causal_self_attention)",
     "true ? attend(causal_self_attention)"),
    ("ring: nothing is passed on in forward", RING, "if (step + 1 < ring.ranks()) arrives = ring.pass_on(current, next);", ""),
    ("ring: shards go the other way", RING, "return (comm->rank() + ranks() - step) % ranks();", "return (comm->rank() + step) % ranks();"),
    ("ring: a step computes with the shard of the one before", RING,
     "    arrives.wait();\n    std::swap(current, next);\n  }\n}\n\nvoid backward", "    arrives.wait();\n    if (step > 0) std::swap(current, next);\n  }\n}\n\nvoid backward"),
    ("ring: the first chunk twice", RING, "chunk(sizes.operand(shard, kv_columns(), 0), half,", "chunk(sizes.operand(shard, kv_columns(), 0), 0,"),
    ("ring: values of the first chunk twice", RING, "chunk(sizes.operand(shard, kv_columns(), sizes.kv_heads), half,",
     "chunk(sizes.operand(shard, kv_columns(), sizes.kv_heads), 0,"),
    ("ring: queries of the first chunk twice", RING, "args.q = chunk(args.q, own,", "args.q = chunk(args.q, 0,"),
    ("ring: statistics of the first chunk twice", RING, "half * tensor.elements() / 2", "0 * half"),
    ("ring: later keys are seen", RING, "if (keys_of > queries) continue;", ""),
    ("ring: earlier keys of the rank are not seen", RING, "if (keys_of > queries) continue;", "if (keys_of > queries || (step == 0 && own != other)) continue;"),
    ("ring: chunks see each other causally", RING, ".causal = keys_of == queries,", ".causal = true,"),
    ("ring: softmax begins anew with each shard", RING, ".resumes = step > 0 || other > 0,", ".resumes = other > 0,"),
    ("ring: softmax begins anew with each chunk", RING, ".resumes = step > 0 || other > 0,", ".resumes = step > 0,"),
    ("ring: masks of a rank's tokens", RING, ".tokens = 2 * ranks() * chunk_tokens(),", ".tokens = 2 * chunk_tokens(),"),
    ("ring: masks of a rank's queries", RING, ".first_query = queries * chunk_tokens(),", ".first_query = own * chunk_tokens(),"),
    ("ring: masks of a rank's keys", RING, ".first_key = keys_of * chunk_tokens()}", ".first_key = other * chunk_tokens()}"),
    ("ring: keys that arrive late", RING, "    arrives.wait();\n    std::swap(current, next);\n  }\n}\n\nvoid backward",
     "    std::swap(current, next);\n  }\n}\n\nvoid backward"),
    ("ring: passed on the other way round", RING, "const int next = (comm->rank() + 1) % ranks(), previous = owner(1);",
     "const int next = owner(1), previous = (comm->rank() + 1) % ranks();"),
    ("ring: keys are not passed on in backward", RING, "if (step + 1 < ring.ranks()) arrives = ring.pass_on(current, next);\n"
     "    ring.for_each_pair(step, qkv, current, out, lse, [&]", "ring.for_each_pair(step, qkv, current, out, lse, [&]"),
    ("ring: gradients stay where they are", RING, "    ring.pass_on(gradients, arriving).wait();\n    std::swap(gradients, arriving);\n", ""),
    ("ring: gradients arrive late", RING, "ring.pass_on(gradients, arriving).wait();", "ring.pass_on(gradients, arriving);"),
    ("ring: gradients end a step before home", RING, "    ring.pass_on(gradients, arriving).wait();\n    std::swap(gradients, arriving);",
     "    if (step + 1 == ring.ranks()) continue;\n    ring.pass_on(gradients, arriving).wait();\n    std::swap(gradients, arriving);"),
    ("ring: gradients of keys begin with what was there", RING, "  set_zero(gradients);\n", ""),
    ("ring: gradients of queries begin with what was there", RING, "if (!dqkv.accumulate) set_zero(dqkv.grad);", ""),
    ("ring: gradients of the first chunk's keys twice", RING, "to.dk = ring.keys(gradients, other);", "to.dk = ring.keys(gradients, 0);"),
    ("ring: gradients of the first chunk's queries twice", RING, "to.dq = ring.chunk(sizes.queries(dqkv.grad), own,", "to.dq = ring.chunk(sizes.queries(dqkv.grad), 0,"),
    ("ring: gradients of keys are not put back", RING, "ring.kv_columns(), true);\n}", "0, true);\n}"),
    ("attention: resumes without the sum so far", "kernels/attention.cu", "sum_[column_ + c] = 1;", "sum_[column_ + c] = 0;"),
    ("attention: resumes without the result so far", "kernels/attention.cu", "    load_columns<Tile>(p.out.of(share.batch, share.head)",
     "    if (false) load_columns<Tile>(p.out.of(share.batch, share.head)"),
    ("attention: keys beyond the last", ATTENTION, "row > minimum(visible, count - 1)", "row > visible"),
    ("context: samples by rank", "train/training_run.h", "data_rank() const { return mesh_.along(MeshDimension::data)->rank(); }",
     "data_rank() const { return mesh_.data_and_context()->rank(); }"),
    ("context: the mean over data ranks", UPDATE, "comm_(mesh.data_and_context()),", "comm_(mesh.along(MeshDimension::data)),"),
    ("context: targets divided among data ranks", UPDATE, "window_(comm_->size(), sum_over(comm_))",
     "window_(ranks_.data, sum_over(comm_))"),
    ("context: an evaluation's loss over data ranks", "train/evaluation.cpp", "Communicator& comm = *mesh.data_and_context();",
     "Communicator& comm = *mesh.along(MeshDimension::data);"),
    ("context: an evaluation's samples by rank", "train/evaluation.cpp", "const Communicator& data = *mesh.along(MeshDimension::data);",
     "const Communicator& data = *mesh.data_and_context();"),
    ("context: ZeRO over data ranks", "train/run_parts.cpp", "make_sharding(options_.distribution, mean_rank(), mean_ranks())",
     "make_sharding(options_.distribution, data_rank(), data_ranks())"),
    ("sequence parallelism: parts of gradients not added up", "nn/arena.cpp", "division_->sum(gradients_.alias(",
     "static_cast<void>(gradients_.alias("),
    ("sequence parallelism: an update adds up no parts of gradients", UPDATE, "arena_.sum_parts_of_gradients();", ""),
    ("sequence parallelism: parts of a shard's gradients at their places among all", ARENA,
     "tiles.front().offset + tiles.front().gradient_shift", "tiles.front().offset"),
    ("sequence parallelism: gradients of divided parameters added up too", "nn/arena.cpp",
     "entries_[i].meta->shard != nullptr || !has_grad(i)", "!has_grad(i)"),
    ("ZeRO 3: each rank begins with its own values", UNITS, "comm_->broadcast(whole, 0).wait();", ""),
    ("ZeRO 3: the shard is the units' beginnings", UNITS, "slice.offset - arena_.buckets()[unit].offset", "0"),
    ("ZeRO 3: no 16-bit copies of the first values", UNITS, "cast(Stream::current", "if (false) cast(Stream::current"),
    ("ZeRO 3: copies are taken for out of date", UNITS, "arena_.mark_low_precision_current();", ""),
    ("ZeRO 3: a unit's values not gathered", UNITS,
     "gather.work = comm_->all_gather(shard.alias({slice.elements}, slice.in_shard), gather.whole);", "static_cast<void>(slice);"),
    ("ZeRO 3: each unit gathered from the first one's slice", UNITS, "shard.alias({slice.elements}, slice.in_shard)",
     "shard.alias({slice.elements}, 0)"),
    ("ZeRO 3: f32 values gathered for 16 bits", UNITS, "in_16_bits = arena_.low_precision().defined();", "in_16_bits = false;"),
    ("ZeRO 3: not freed after forward", UNITS, "if (in_backward_[unit] == 0 && !is_kept) arena_.set_unit(unit, {}, {});", "static_cast<void>(is_kept);"),
    ("ZeRO 3: a recomputed forward frees what backward reads", UNITS, "if (in_backward_[unit] == 0 && !is_kept) arena_", "if (!is_kept) arena_"),
    ("ZeRO 3: backward does not gather", UNITS, "in_backward_[unit] = 1;\n      provide(unit, Direction::backward);", "in_backward_[unit] = 1;"),
    ("ZeRO 3: the next unit is not gathered ahead", UNITS, "if (const auto neighbour = next(unit, direction)) start_gather(*neighbour);", ""),
    ("ZeRO 3: backward gathers ahead as forward does", UNITS, "provide(unit, Direction::backward);", "provide(unit, Direction::forward);"),
    ("ZeRO 3: a gather is not waited for", UNITS, "own.work.wait();", ""),
    ("ZeRO 3: a gather of values that have changed is used", UNITS, " && gather.version == version_of(unit)", ""),
    ("ZeRO 3: a gather that was not used is kept", UNITS, "gathers_[unit] = {};\n  arena_", "arena_"),
    ("ZeRO 3: a chunk's backward frees all chunks' units", UNITS, "if (arena_.units()[unit].chunk == chunk) end_of(unit);",
     "end_of(unit);"),
    ("ZeRO 3: each chunk's backward frees the first one's units", "dist/zero3_reducer.cpp", "chunk_ = chunk;", ""),
    ("ZeRO 3: not freed when its gradients are complete", "dist/zero3_reducer.cpp", "values_->end_of(bucket);", ""),
    ("ZeRO 3: not freed at the end of backward", "dist/zero3_reducer.cpp", "values_->end_of_backward(chunk_);", ""),
    ("ZeRO 3: kept although units are freed after forward", UNITS, "!arena_.sharding().reshard_after_forward && Tape", "Tape"),
    ("ZeRO 3: an evaluation keeps units", UNITS, "&& Tape::is_recording();", ";"),
    ("ZeRO 3: kept units are not gathered again when values change", UNITS, "if (is_in_memory(unit) && is_current) return;",
     "static_cast<void>(is_current);\n  if (is_in_memory(unit)) return;"),
    ("ZeRO: state of each bucket from the first one's slice", "dist/optimizer_state.cpp", "shard.alias({slice.elements}, slice.in_shard)",
     "shard.alias({slice.elements}, 0)"),
    ("ZeRO: largest elements are added up", EXCHANGE, ".max = all_reduce_over(comm, ReduceOp::max),",
     ".max = all_reduce_over(comm, ReduceOp::sum),"),
    ("ZeRO 1: gradients added up, without a mean", REDUCER, "comm_->reduce_scatter(whole, own, ReduceOp::mean)",
     "comm_->reduce_scatter(whole, own, ReduceOp::sum)"),
    ("ZeRO 1: a mean so far counts as one rank's", REDUCER, "static_cast<double>(comm_->size())", "1.0"),
    ("ZeRO 2: the mean is the bucket's beginning", BUFFERS, "slice.offset - arena_.buckets()[sent.bucket].offset", "0"),
    ("ZeRO 2: all buckets in the first one's slice", BUFFERS, "arena_.gradients().alias({slice.elements}, slice.in_shard)",
     "arena_.gradients().alias({slice.elements}, 0)"),
    ("ZeRO 2: backwards are not announced", "dist/zero2_reducer.cpp", "if (!equal_rounds_) announce_round(true);", ""),
    ("ZeRO 1: a step's values are not gathered", EXCHANGE, "return comm.all_gather(flat.alias({slice.elements}, slice.offset),\n"
     "                         flat.alias({bucket.elements}, bucket.offset));",
     "return comm.all_gather(flat.alias({slice.elements}, slice.offset), empty({bucket.elements}, flat.dtype(), flat.device()));"),
    ("ZeRO 1: values are read before they arrive", EXCHANGE, "    work_.wait();\n    for", "    for"),
    ("ZeRO 1: a step waits for its values", EXCHANGE, "if (overlap) {", "if (overlap && false) {"),
    ("ZeRO 1: without overlap a step does not wait for its values", EXCHANGE, "if (overlap) {", "if (overlap || true) {"),
    ("ZeRO 1: who reads the whole arena waits for its last bucket", EXCHANGE, "for (const auto& arriving : *all) arriving->finish();",
     "all->front()->finish(), all->back()->finish();"),
    ("ZeRO 3: gradients added up, without a mean", BUFFERS, "reduce_scatter(buffer, own, ReduceOp::mean)",
     "reduce_scatter(buffer, own, ReduceOp::sum)"),
    ("ZeRO 3: a step changes values as if they were whole", ARENA, ".offset = first + value_shift", ".offset = first"),
    ("ZeRO 3: a shard's state is found as if values were whole", ARENA, ".state_shift = shift - value_shift",
     ".state_shift = shift"),
    ("ZeRO 3: a shard's gradients are found as if values were whole", ARENA, "? shift - value_shift : 0", "? shift : 0"),
    ("ZeRO 3: a weight of two units belongs to one", "nn/parameter_units.cpp", "if (!is_first) place->second = 0;",
     "static_cast<void>(place), static_cast<void>(is_first);"),
    ("ZeRO 3: norms of the shard", "optim/clip.cpp", "(is_max ? shards.max : shards.sum)(total);",
     "static_cast<void>(shards);"),
    ("pipeline: results are not sent", PIPELINE, "if (!is_last) flight.sent = send(*next_.results, flight.result);", ""),
    ("pipeline: gradients are not sent", PIPELINE, "send(*previous_.gradients, gradient)", "Work()"),
    ("pipeline: an evaluation's results are not sent", PIPELINE,
     "if (!is_last_part(chunk)) sends.push_back(send(*next_.results, y));", ""),
    ("pipeline: a result is kept until its backward has ended", PIPELINE, "std::exchange(flight.result, {}).autograd", "flight.result.autograd"),
    ("pipeline: gradients are kept until the update ends", PIPELINE, "free_received_gradients(task);", ""),
    ("pipeline: gradients go the way of results", PIPELINE, "receive(*next_.gradients, gradient);", "receive(*next_.results, gradient);"),
    ("pipeline: no ring for chunks", PIPELINE, "(is_ring ? ranks : ranks - 1)", "(is_ring ? ranks - 1 : ranks - 1)"),
    ("pipeline: every stage has chunk 0's units", PIPELINE, "static_cast<std::size_t>(chunk) * static_cast<std::size_t>(place.stages) +",
     "static_cast<std::size_t>(0 * chunk) * static_cast<std::size_t>(place.stages) +"),
    ("pipeline: each micro-batch has the first one's masks", PIPELINE, "first_counters.back() + plans.back()->counters",
     "first_counters.back() + 0 * plans.back()->counters"),
    ("pipeline: each stage has the first one's masks", PIPELINE, "before.counters + default_generator().offset - first", "0 * first"),
    ("pipeline: chunks begin at their micro-batch's masks", PIPELINE, "plan.chunks[static_cast<std::size_t>(task.chunk)].counters;", "0;"),
    ("pipeline: an update leaves the random numbers where its last chunk did", PIPELINE, "default_generator().offset = first_counters.back();", ""),
    ("pipeline: only the last stage learns how many random numbers", PIPELINE, "comm_->broadcast(in_all, comm_->size() - 1).wait();", ""),
    ("pipeline: all learn the first stage's number of random numbers", PIPELINE, "comm_->broadcast(in_all, comm_->size() - 1)",
     "comm_->broadcast(in_all, 0)"),
    ("pipeline: one communicator for results and gradients", PIPELINE, "Link link{pair_of(*comm_, from, to), pair_of(*comm_, from, to)};",
     "const auto pair = pair_of(*comm_, from, to);\n    Link link{pair, pair};"),
    ("pipeline: all micro-batches on one tape", PIPELINE, "void Pipeline::forward(InFlight& flight, const StageTask& task, const ForwardPlan& plan,\n                       const Callbacks& callbacks) {\n  const OnTape on_tape(flight.tape);",
     "void Pipeline::forward(InFlight& flight, const StageTask& task, const ForwardPlan& plan,\n                       const Callbacks& callbacks) {"),
    ("pipeline: tied gradients not added up", PIPELINE, "if (own.defined()) copy.pair->all_reduce(own, ReduceOp::sum).wait();", "static_cast<void>(own);"),
    ("pipeline: tied gradients are a mean", PIPELINE, "pair->all_reduce(own, ReduceOp::sum)", "pair->all_reduce(own, ReduceOp::mean)"),
    ("stages with ZeRO: tied gradients added up before the mean", UPDATE,
     "parallel_.finish();\n  if (pipeline_ != nullptr) pipeline_->sum_tied_gradients(&arena_);",
     "if (pipeline_ != nullptr) pipeline_->sum_tied_gradients(&arena_);\n  parallel_.finish();"),
    ("stages with ZeRO: tied gradients of a shard's beginning", ARENA, "sharding_.zero_stage >= 2 ? slice.in_shard : slice.offset);",
     "sharding_.zero_stage >= 2 ? 0 : slice.offset);"),
    ("stages with ZeRO: tied gradients of stage 1 as of a shard", ARENA, "sharding_.zero_stage >= 2 ? slice.in_shard : slice.offset);", "slice.in_shard);"),
    ("stages with ZeRO: tied weights share a bucket", PLACES, "return {stages->chunk_of(name), stages->is_copied(name)};",
     "return {stages->chunk_of(name), false};"),
    ("stages with ZeRO: tied weights share a unit", PLACES, "unit == 0 ? place_in(stages, parameter.name) : std::pair(0, false)", "std::pair(0, false)"),
    ("stages with ZeRO: buckets of two chunks", PLACES, "return {stages->chunk_of(name), stages->is_copied(name)};",
     "return {0 * stages->chunk_of(name), stages->is_copied(name)};"),
    ("stages with ZeRO: the copy of tied weights is in its owner's chunk", STAGES, "copy.stage == place_.stage) return copy.chunk;",
     "copy.stage == place_.stage) break;"),
    ("stages with ZeRO: a backward reduces all chunks", BUCKETS, "if (arena.entries()[buckets[b].first_entry].chunk == chunk) numbers", "numbers"),
    ("stages with ZeRO: a window ends for the first chunk only", PARALLEL, "for (std::size_t chunk = is_reduced_.size(); chunk-- > 0;) {",
     "for (std::size_t chunk = 1; chunk-- > 0;) {"),
    ("stages with ZeRO: a window ends for the first chunk first", PARALLEL,
     "for (std::size_t chunk = is_reduced_.size(); chunk-- > 0;) {", "for (std::size_t chunk = 0; chunk < is_reduced_.size(); ++chunk) {"),
    ("stages with ZeRO: a round counts for all chunks", PARALLEL, "is_reduced_[chunk_] = 1;", "is_reduced_.assign(is_reduced_.size(), 1);"),
    ("stages with ZeRO: each micro-batch reduces", UPDATE, "const auto scope = parallel_.no_sync(i + 1 < features.size());\n             run();",
     "run();"),
    ("stages with ZeRO: no backward reduces", UPDATE, "const auto scope = parallel_.no_sync(i + 1 < features.size());\n             run();",
     "const auto scope = parallel_.no_sync();\n             run();"),
    ("stages with ZeRO: a chunk's forward gathers as the model's", PIPELINE, "ModuleScope scope(stages_.chunk(chunk));", "ModuleScope scope(model_);"),
    ("stages with ZeRO: every chunk gathers what the first needs", PLACES, "&stages->chunk(chunk)", "&stages->chunk(0 * chunk)"),
    ("stages with ZeRO: a chunk gathers ahead for another", UNITS, " && units[other].chunk == units[unit].chunk", ""),
    ("stages with ZeRO: learning a shape gathers", PIPELINE, "const UnitValues::Zeros no_gathers;", ""),
    ("stages with ZeRO: LAMB's and LARS' norms of tied weights on one stage only", "optim/optimizer.cpp", "copy.sum(row);", ""),
    ("stages with ZeRO: LAMB's and LARS' norms count tied weights twice", "optim/optimizer.cpp", "if (!copy.is_counted) clear(row);", ""),
    ("pipeline: the loss stays on the last stage", UPDATE,
     "pipeline_->comm().all_reduce(result.loss, ReduceOp::sum).wait();", ""),
    ("pipeline: the loss is a mean over stages", UPDATE, "pipeline_->comm().all_reduce(result.loss, ReduceOp::sum)",
     "pipeline_->comm().all_reduce(result.loss, ReduceOp::mean)"),
    ("pipeline: correct predictions stay on the last stage", UPDATE,
     "pipeline_->comm().all_reduce(result.correct, ReduceOp::sum).wait();", "static_cast<void>(0);"),
    ("pipeline: an evaluation's loss stays on the last stage", "train/evaluation.cpp",
     "loss = sum_over_ranks(pipeline->comm(), static_cast<float>(loss));", ""),
    ("pipeline: an evaluation's correct predictions stay on the last stage", "train/evaluation.cpp",
     "correct = sum_over_ranks(pipeline->comm(), correct);", ""),
    ("pipeline: norm of the stage", "optim/clip.cpp", "if (arena.stages()) (is_max", "if (false) (is_max"),
    ("pipeline: an update's norm of the stage", "train/run_parts.cpp", "arena_->set_stages(pipeline_->of_arena());", ""),
    ("pipeline: norm adds up largest elements", "optim/clip.cpp", "(is_max ? arena.stages()->max : arena.stages()->sum)", "arena.stages()->sum"),
    ("pipeline: norm counts tied weights twice", ARENA, "counts(entry) && !is_copy", "counts(entry) && (!is_copy || is_copy)"),
    ("pipeline: tied weights are not compared", REPLICAS, "if (pipeline == nullptr) return;", "return;"),
    ("ZeRO 3: slices of undivided parameters are not compared", REPLICAS, "  verify_same(\n      *mesh.along(",
     "  if (arena == nullptr || arena->has_all_values()) verify_same(\n      *mesh.along("),
    ("ZeRO 3: slices are compared over data ranks too", REPLICAS, "if (arena == nullptr || arena->has_all_values()) {", "if (true) {"),
    ("ZeRO 3: what is compared is the shard's beginning", REPLICAS, "values().alias({end - first}, first + shift)", "values().alias({end - first}, 0)"),
    ("pipeline: collectives wait until what was sent is received", "dist/mpi_thread.cpp",
     "return is_of_another && (is_exchange(job) || is_exchange(other.job));", "return is_of_another && false;"),
    ("schedule: one more forward before 1F1B's first backward", SCHEDULE, "return after;", "return after + 1;"),
    ("schedule: backwards begin with the first chunk", SCHEDULE, "is_backward ? shape.chunks - 1 - c : c", "c"),
    ("schedule: groups smaller than the stages", SCHEDULE, "shape.micro_batches / shape.stages)", "(shape.micro_batches + shape.stages - 1) / shape.stages)"),
    ("schedule: the last micro-batches in no group", SCHEDULE, "++groups[i];", ";"),
    ("schedule: interleaved warms up as 1F1B", SCHEDULE, "return 2 * after + (shape.chunks - 1) * largest_group(shape);", "return after;"),
    ("stages: a model in two halves for each chunk", STAGES, "% place_.stages;", "/ place_.chunks % place_.stages;"),
    ("stages: step counts from the stage's front", PARTS, "std::find(own.rbegin(), own.rend(), name)", "std::find(own.rbegin(), own.rend(), own.front())"),
    ("stages: step counts of the whole model from its front", PARTS, "static_cast<std::size_t>(all - 1 - i)", "static_cast<std::size_t>(i)"),
    ("stages: step counts go back in another order", PARTS, "part.alias({1}, j).copy_from(whole.alias({1}, i));",
     "part.alias({1}, j).copy_from(whole.alias({1}, i - i + j));"),
    ("stages: tensors of other stages are not gathered", PARTS, "move(from, parameter.stage, all.back().tensor, 0, comm);", "static_cast<void>(0);"),
    ("stages: a copy is not restored", STAGES, "return copy.name == parameter.name && copy.stage == stage;",
     "return copy.name == parameter.name && copy.stage == -1 - stage;"),
    ("ZeRO 3: LAMB's and LARS' norms of the shard", "optim/optimizer.cpp",
     "if (arena_.is_sharded()) arena_.shard_exchange().sum(x);", ""),
    ("an update's loss: a sum over the ranks", UPDATE, "comm_->all_reduce(result.loss, ReduceOp::mean)",
     "comm_->all_reduce(result.loss, ReduceOp::sum)"),
    ("an update's correct predictions: a mean over the ranks", UPDATE, "comm_->all_reduce(result.correct, ReduceOp::sum)",
     "comm_->all_reduce(result.correct, ReduceOp::mean)"),
    ("each rank begins at its own position", STATE, "world.broadcast(shared, 0).wait();", ""),
    ("ZeRO 3: each rank begins with its own loss scale", STATE, "&& name.starts_with(kWeight)", ""),
    ("parts: other ranks' tensors that all have are not overwritten", "dist/model_parts.cpp",
     "broadcast_from_first(parts[i].tensor, comm);", "static_cast<void>(comm);"),
    ("ZeRO: other ranks' state that is not divided is not overwritten", "dist/optimizer_state.cpp",
     "comm.broadcast(state, 0).wait();", ""),
    ("context: every rank reads the first one's tokens", READS, "part.runs(length / part.ranks)",
     "ContextPart{0, part.ranks, nullptr}.runs(length / part.ranks)"),
    ("context: both chunks from a sequence's beginning", READS, "static_cast<std::size_t>(run.first)", "std::size_t{0}"),
    ("context: the first sample's tokens for all", READS, "(i * length +", "(0 * i * length +"),
    ("context: targets are the features", READS, "copy_runs(ys,", "copy_runs(xs,"),
    ("ZeRO: every rank has the first one's slices", SLICES, "bucket.offset + rank * elements", "bucket.offset"),
    ("ZeRO: all slices at the shard's beginning", SLICES, "in_shard += elements;", ""),
    ("ZeRO: slices of half a rank's elements", SLICES, "elements = bucket.elements / world_size;", "elements = bucket.elements / world_size / 2;"),
    ("ZeRO: buckets padded for one rank", SLICES, "world_size * kTileAlignment", "kTileAlignment + 0 * world_size"),
    ("ZeRO: all buckets at the arena's beginning", SLICES, "    offset += bucket.elements;\n", ""),
    ("ZeRO 3: all units at the arena's beginning", SLICES, "offset += buckets.back().elements;", ""),
    ("replicas: data ranks are not compared", REPLICAS, "verify_same(*mesh.data_and_context(), what, \"parameter\",\n"
     "                checksums(model, arena, [](const Tensor&) { return true; }));", ""),
    ("replicas: tensor ranks are not compared", REPLICAS, "  verify_same(\n      *mesh.along(MeshDimension::tensor), what, \"undivided parameter\",\n"
     "      checksums(model, arena, [](const Tensor& parameter) { return shard_of(parameter) == nullptr; }));", ""),
    ("replicas: tensor ranks compare what they divide too", REPLICAS, "return shard_of(parameter) == nullptr;",
     "return shard_of(parameter) == nullptr || true;"),
]

# What is not waited for, the file, and the text with the wait.
WAITS = [
    ("naive rung: the buckets", "dist/naive_reducer.cpp", "hook_->wait(*comm_);"),
    ("buckets", "dist/bucket_reducer.cpp", "hook_->wait(*comm_);"),
    ("all-reduces of buckets", "dist/comm_hook.cpp", "for (const Work& work : std::exchange(works_, {})) work.wait();"),
    ("compression: the largest element", "dist/compress_hook.cpp", "sent_.back().work.wait();"),
    ("compression: the mean", "dist/compress_hook.cpp", "sent.work.wait();"),
    ("compression: residuals for a file", "dist/compress_hook.cpp", "comm.gather(own, all, 0).wait();"),
    ("compression: residuals of a file", "dist/compress_hook.cpp",
     "comm.scatter(all, residual_.alias({entry.elements}, entry.offset), 0).wait();"),
    ("first values of frozen parameters", PARALLEL, "if (!in_arena.contains(tensor)) comm_->broadcast(tensor->detach(), 0).wait();"),
    ("flags of used parameters", PARALLEL, "comm_->all_reduce(shared, ReduceOp::max).wait();\n    flags"),
    ("ZeRO 1: gradients", REDUCER, "for (const Work& work : std::exchange(works_, {})) work.wait();"),
    ("ZeRO 1: values without overlap", EXCHANGE, "for (const Work& work : works) work.wait();"),
    ("ZeRO 2: a bucket", BUFFERS, "sent.work.wait();"),
    ("ZeRO: state for a file", "dist/optimizer_state.cpp", "comm.gather(slice, on_device, 0).wait();"),
    ("ZeRO: state of a file", "dist/optimizer_state.cpp", "comm.scatter(on_device, slice, 0).wait();"),
    ("ZeRO 3: first values", UNITS, "comm_->broadcast(whole, 0).wait();"),
    ("copy_to_region: the gradient", OPS, "comm->all_reduce(dy, ReduceOp::sum).wait();"),
    ("reduce_from_region", OPS, "comm->all_reduce(x, ReduceOp::sum).wait();"),
    ("cross-entropy: the statistics", OPS, "comm->all_gather(own, all).wait();"),
    ("all_gather_tokens", SEQUENCE, "comm.all_gather(x, by_rank).wait();"),
    ("reduce_scatter_tokens", SEQUENCE, "comm.reduce_scatter(by_rank, own, ReduceOp::sum).wait();"),
    ("parts: a whole for a file", "dist/model_parts.cpp",
     "comm.gather(copy_to(part.detach(), comm.device()), all, 0, parts.counts).wait();"),
    ("parts: those of a file", "dist/model_parts.cpp", "comm.scatter(all, received, 0, parts.counts).wait();"),
    ("ring: keys in backward", RING, "    arrives.wait();\n    std::swap(current, next);\n    ring.pass_on(gradients"),
    ("pipeline: what a stage receives", PIPELINE, "from.exchange({}, {{tensor, 1 - from.rank()}}).wait();"),
    ("pipeline: the number of random numbers", PIPELINE, "comm_->broadcast(in_all, comm_->size() - 1).wait();"),
    ("pipeline: tied gradients", PIPELINE, "copy.pair->all_reduce(own, ReduceOp::sum).wait();"),
    ("pipeline: a stage's tensors for a file", PARTS, "comm.exchange({}, {{received, sender}}).wait();"),
    ("pipeline: a gradient, by its sender before a forward", PIPELINE, "    each.sent.wait();\n"),
    ("pipeline: a gradient, by its sender at the end of an update", PIPELINE,
     "for (const SentGradient& each : std::exchange(sent_gradients_, {})) each.sent.wait();"),
    ("pipeline: a result, by its sender", PIPELINE, "flight.sent.wait();"),
    ("pipeline: shapes, by their sender", PIPELINE, "wait_for(sends);\n  return plan;"),
    ("pipeline: an evaluation's results, by their sender", PIPELINE, "wait_for(sends);\n  return is_last()"),
    ("pipeline: a stage's tensors for a file, by their sender", PARTS,
     "comm.exchange({{copy_to(from.detach(), comm.device()), receiver}}, {}).wait();"),
    ("ZeRO 3: a gather that was not needed", UNITS, "gathers_[unit].work.wait();"),
    ("ZeRO: state that is not divided", "dist/optimizer_state.cpp", "comm.broadcast(state, 0).wait();"),
    ("parts: a file's tensors that all ranks have", "dist/model_parts.cpp", "comm.broadcast(on_device, 0).wait();"),
    ("where training begins", STATE, "world.broadcast(shared, 0).wait();"),
    ("weights with which training begins", STATE, "for (const Work& work : broadcasts) work.wait();"),
    ("first values", PARALLEL, "comm_->broadcast(arena.values(), 0).wait();"),
    ("ZeRO 1: values that nothing has read", EXCHANGE, "      work_.wait();\n"),
    ("ZeRO 2: whether another rank runs a backward", "dist/zero2_reducer.cpp", "work.wait();"),
    ("sums of norms", "dist/communicator.cpp", "comm->all_reduce(tensor, op).wait();"),
    ("a step of the ring all-reduce", "dist/ring_all_reduce.cpp", "works_[k % in_flight_].wait();"),
    ("replicas: the checksums", "dist/verify_same.cpp", "gathered).wait();"),
    ("replicas: the text that differs", "dist/verify_same.cpp", "comm.broadcast(sent, root).wait();"),
    ("lengths of texts", "dist/gather_text.cpp", "bytes).wait();"),
    ("texts", "dist/gather_text.cpp", "comm.gather(own, all, 0, counts).wait();"),
    ("a window's targets and an evaluation's sums", "dist/communicator.h", "comm.all_reduce(sum, ReduceOp::sum).wait();"),
    ("an update's loss", UPDATE, "  loss.wait();\n"),
    ("an update's correct predictions", UPDATE, "  correct.wait();\n"),
    ("loss of the last stage", UPDATE, "pipeline_->comm().all_reduce(result.loss, ReduceOp::sum).wait();"),
    ("correct predictions of the last stage", UPDATE, "pipeline_->comm().all_reduce(result.correct, ReduceOp::sum).wait();"),
]
# The replacements of texts from which more than .wait() is removed.
WITHOUT_WAIT = {
    "hook_->wait(*comm_);": "",
    "for (const Work& work : std::exchange(works_, {})) work.wait();": "works_.clear();",
    "for (const Work& work : works) work.wait();": "",
    "sent_.back().work.wait();": "",
    "sent.work.wait();": "",
    "    arrives.wait();\n    std::swap(current, next);\n    ring.pass_on(gradients": "    std::swap(current, next);\n    ring.pass_on(gradients",
    "    each.sent.wait();\n": "",
    "for (const SentGradient& each : std::exchange(sent_gradients_, {})) each.sent.wait();": "sent_gradients_.clear();",
    "flight.sent.wait();": "",
    "wait_for(sends);\n  return plan;": "return plan;",
    "wait_for(sends);\n  return is_last()": "return is_last()",
    "gathers_[unit].work.wait();": "",
    "for (const Work& work : broadcasts) work.wait();": "broadcasts.clear();",
    "      work_.wait();\n": "",
    "work.wait();": "",
    "works_[k % in_flight_].wait();": "",
    "  loss.wait();\n": "",
    "  correct.wait();\n": "",
}
# Operations whose results are no longer waited for. The ranks whose results come late notice that soonest.
CHANGES.append(("an exchange of a parameter in flight: the gather is not waited for", "dist/communicator.cpp", "  tensor.raw();\n", ""))
CHANGES += [(f"{what}: not waited for", file, text, WITHOUT_WAIT.get(text, text.replace(".wait()", ""))) for what, file, text in WAITS]


def places_missing(folder):
    return [f"{what}: {file} has no '{text}'" for what, file, text, _ in CHANGES if text not in (folder / file).read_text()]


def build_tests(build):
    done = subprocess.run(["ninja", "-C", build, "dist_tests"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the build failed:\n{done.stdout[-4000:]}")


def failure(build, tags, late_first=False):
    """The first test that fails, of those with these tags and then of the others, on 2 and 4 ranks, and on 2 whose results come
    late."""
    program = next(Path(build).rglob("dist_tests"))
    environment = dict(os.environ, RINGTAPE_LONG_TESTS="1", OMP_NUM_THREADS="1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
                       OMPI_MCA_pml="ob1")
    for cases in [tags, "".join(f"[{tag}]~{tags}," for tag in TAGS if f"[{tag}]" != tags)] if tags else [ALL]:
        ways = [("2", ""), ("4", ""), ("2", ", late")]
        for ranks, late in reversed(ways) if late_first else ways:
            of_ranks = dict(environment, RINGTAPE_DIST_LATE="1") if late else environment
            chosen = ",".join(f"{each}~[bytes]" for each in cases.split(",") if each) if late else cases
            name = first_failure([*MPIRUN, "-n", ranks, program, chosen], of_ranks, timeout=300)
            if name:
                return f"{name} ({ranks} ranks{late})"
    return None


def try_changes(scratch, first, only):
    """Prints a line for each change, and returns how many no test has noticed."""
    copy, build = scratch / "source", scratch / "build"
    copy_tree(copy)
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DRINGTAPE_CUDA=OFF", "-DRINGTAPE_WERROR=OFF", "-DRINGTAPE_APPS=OFF",
               "-DRINGTAPE_BENCHMARKS=OFF", "-DRINGTAPE_UNITY=OFF"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "-S", copy, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    build_tests(build)
    name = failure(build, None)
    if name:
        sys.exit(f"before any change this test fails: {name}")
    unnoticed = 0
    for what, file, text, replacement in CHANGES[first:]:
        if only not in what:
            continue
        original = (copy / file).read_text()
        (copy / file).write_text(original.replace(text, replacement, 1))
        build_tests(build)
        name = failure(build, TAG_OF.get(file), late_first=what.endswith("not waited for"))
        (copy / file).write_text(original)
        unnoticed += name is None
        print(f"{what}: {name or 'NO TEST FAILS'}", flush=True)
    return unnoticed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--first", type=int, default=0, metavar="N")
    parser.add_argument("--fits", action="store_true")
    options = parser.parse_args()
    missing = places_missing(ROOT)
    if missing:
        sys.exit("\n".join(missing))
    if options.fits:
        return
    with tempfile.TemporaryDirectory() as scratch:
        unnoticed = try_changes(Path(scratch), options.first, options.only)
    if unnoticed:
        sys.exit(f"{unnoticed} changes that no test notices")


if __name__ == "__main__":
    main()
