#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// The part of CUPTI that Ringtape calls, as the CUPTI documentation of CUDA 13.0 describes it, for the GPU
/// model. The records have the layout of CUDA 12.0.

#define CUPTIAPI

using CUcontext = struct CUctx_st*;
using CUpti_SubscriberHandle = struct CUpti_Subscriber_st*;
using CUpti_CallbackId = std::uint32_t;

enum CUptiResult {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_NOT_INITIALIZED = 15,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39
};

enum CUpti_CallbackDomain : int { CUPTI_CB_DOMAIN_INVALID = 0 };
using CUpti_CallbackFunc = void(CUPTIAPI*)(void* user_data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                           const void* data);

enum CUpti_ActivityKind : int {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39
};
enum CUpti_ActivityFlag { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum CUpti_ActivityMemcpyKind {
  CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN = 0,
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOH = 9,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10
};
enum CUpti_ExternalCorrelationKind : int {
  CUPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN = 1,
  CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC = 2,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 = 4,
  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 5,
  CUPTI_EXTERNAL_CORRELATION_KIND_SIZE = 6
};

struct alignas(8) CUpti_Activity {
  CUpti_ActivityKind kind;
};

struct alignas(8) CUpti_ActivityExternalCorrelation {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  std::uint64_t externalId;
  std::uint32_t correlationId;
  std::uint32_t reserved;
};

struct alignas(8) CUpti_ActivityAPI {
  CUpti_ActivityKind kind;
  CUpti_CallbackId cbid;  ///< 0: the model does not number the functions
  std::uint64_t start, end;
  std::uint32_t processId, threadId, correlationId, returnValue;
};

struct alignas(8) CUpti_ActivityMemcpy5 {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind, srcKind, dstKind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId, channelID;
  int channelType;
  std::uint32_t pad2;
};

struct alignas(8) CUpti_ActivityMemset3 {
  CUpti_ActivityKind kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, contextId, streamId, correlationId;
  std::uint16_t flags, memoryKind;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
  std::uint32_t graphId, padding;
};

struct alignas(8) CUpti_ActivityKernel9 {
  CUpti_ActivityKind kind;
  std::uint8_t cacheConfig, sharedMemoryConfig;
  std::uint16_t registersPerThread;
  int partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
  std::uint64_t start, end, completed;
  std::uint32_t deviceId, contextId, streamId;
  std::int32_t gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory;
  std::uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
  std::int64_t gridId;
  const char* name;
  void* reserved0;
  std::uint64_t queued, submitted;
  std::uint8_t launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding;
  std::uint32_t sharedMemoryExecuted;
  std::uint64_t graphNodeId;
  int shmemLimitConfig;
  std::uint32_t graphId;
  void* pAccessPolicyWindow;
  std::uint32_t channelID;
  int channelType;
  std::uint32_t clusterX, clusterY, clusterZ, clusterSchedulingPolicy;
  std::uint64_t localMemoryTotal_v2;
  std::uint32_t maxPotentialClusterSize, maxActiveClusters;
};

static_assert(sizeof(CUpti_ActivityExternalCorrelation) == 24);
static_assert(offsetof(CUpti_ActivityMemcpy5, copyKind) == 4 && offsetof(CUpti_ActivityMemcpy5, bytes) == 8);
static_assert(offsetof(CUpti_ActivityMemcpy5, streamId) == 40);
static_assert(offsetof(CUpti_ActivityMemcpy5, graphNodeId) == 64 && sizeof(CUpti_ActivityMemcpy5) == 88);
static_assert(offsetof(CUpti_ActivityMemset3, bytes) == 8 && offsetof(CUpti_ActivityMemset3, streamId) == 40);
static_assert(offsetof(CUpti_ActivityMemset3, graphNodeId) == 64 && sizeof(CUpti_ActivityMemset3) == 80);
static_assert(offsetof(CUpti_ActivityKernel9, start) == 16 && offsetof(CUpti_ActivityKernel9, gridX) == 52);
static_assert(offsetof(CUpti_ActivityKernel9, name) == 104 && sizeof(CUpti_ActivityKernel9) == 208);
static_assert(offsetof(CUpti_ActivityKernel9, graphNodeId) == 144);

using CUpti_BuffersCallbackRequestFunc = void(CUPTIAPI*)(std::uint8_t** buffer, std::size_t* bytes,
                                                         std::size_t* max_records);
using CUpti_BuffersCallbackCompleteFunc = void(CUPTIAPI*)(CUcontext context, std::uint32_t stream,
                                                          std::uint8_t* buffer, std::size_t bytes,
                                                          std::size_t valid_bytes);
using CUpti_TimestampCallbackFunc = std::uint64_t(CUPTIAPI*)();

extern "C" {
CUptiResult cuptiGetResultString(CUptiResult result, const char** text);
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user_data);
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(std::uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes,
                                       CUpti_Activity** record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, std::uint32_t stream, std::size_t* dropped);
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last);
}
