#pragma once

#include <cstdint>
#include <optional>

#include "dist/communicator.h"
#include "nn/gpt_estimate.h"

namespace ringtape::planner {

/// An update of a GPT on ranks that divide batch and model.
struct ParallelUpdate {
  GptMemoryProblem gpt;  ///< a micro-batch on this rank; `sharding` has the ranks that divide the batch
  std::int64_t micro_batches = 1;  ///< of this rank in an update
  std::optional<DType> compress;   ///< of gradients on their way; none: f32
};

/// What a rank calls in an update on each of its communicators: calls and bytes of tensors, as
/// Communicator::collectives() counts them; bytes_sent() (dist/traffic.h) makes bytes on links of them.
struct ParallelTraffic {
  CollectiveCounts data{}, tensor{}, context{}, pipeline{};
};

/// By formula, for N tokens of a micro-batch on this rank, width C, e bytes a value, L blocks of the stage, t
/// ranks that divide a layer, P gradients with the padding of buckets, and k micro-batches:
///
///   tensor   a micro-batch has 2 borders into (with SwiGLU 3) and 2 out of the divided layers of a block, 1
///            out of the embeddings, 1 into the output layer. Out of them e N C are added up in forward, into
///            them in backward: 4 L + 2 all-reduces (Shoeybi et al., 2019, section 3). With sequence
///            parallelism each is a reduce-scatter in one direction and an all-gather in the other, as many
///            of both (Korthikanti et al., 2022, section 4.2.2). Cross-entropy gathers 3 f32 for a token and
///            rank. Recomputed blocks repeat their forward. With sequence parallelism gradients of what all
///            ranks have are added up once an update.
///   data     ZeRO 0: an all-reduce of 4 P, compressed 2 P. 1: a reduce-scatter of 4 P and an all-gather of
///            4 P, or of 2 P in 16 bits. 2: k reduce-scatters. 3: k reduce-scatters, and 2 k all-gathers, but
///            none after the update (Rajbhandari et al., 2020, section 7); k without
///            reshard_after_forward. And a flag for each parameter, and
///            the loss.
///   context  of c ranks: of each block and micro-batch c - 1 exchanges of a shard of keys and values in
///            forward, and where it is recomputed, and 2 c - 1 in backward (dist/ring_attention.h). The mean
///            of the gradients is over data x context, under `data`.
///   pipeline e N C for each micro-batch and chunk, to the next stage in forward and to the previous in
///            backward, a t-th of it with sequence parallelism; the gradients of tied embeddings, f32,
///            between the first and the last stage; the loss.
///
/// Without clipping and LAMB, whose norms are a few bytes more.
ParallelTraffic update_traffic(const ParallelUpdate& update);

}  // namespace ringtape::planner
