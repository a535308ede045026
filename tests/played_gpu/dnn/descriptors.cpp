#include "tests/played_gpu/dnn/descriptors.hpp"

#include <algorithm>

#include "tests/played_gpu/handles.hpp"
#include "tests/played_gpu/stream.hpp"

namespace omni::played {
namespace {

template <class Handle, class Object>
Handles<Handle, Object>& handles() {
  static auto* all = new Handles<Handle, Object>;  // never destroyed: used until the very end
  return *all;
}
auto& contexts() { return handles<cudnnHandle_t, cudnnContext>(); }
auto& descriptors() { return handles<cudnnBackendDescriptor_t, Descriptor>(); }

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;  // floats, and what is counted up in the header
  }
}

}  // namespace

std::shared_ptr<Descriptor> find_descriptor(cudnnBackendDescriptor_t handle) {
  return descriptors().find(handle);
}

}  // namespace omni::played

using namespace omni::played;

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *handle = contexts().add(std::make_shared<cudnnContext>());
  return CUDNN_STATUS_SUCCESS;
}
// A real cudnnDestroy may use the handle's stream. find_stream() ends the program if the stream
// does not exist any more.
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle != nullptr) find_stream(handle->stream);
  return contexts().remove(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *descriptor = descriptors().add(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return descriptors().remove(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* elements) {
  const auto descriptor = find_descriptor(handle);
  if (!descriptor || descriptor->finalized || count < 1 || elements == nullptr)
    return CUDNN_STATUS_BAD_PARAM;
  const auto many = static_cast<std::size_t>(count);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    Descriptor::Parts parts;
    for (std::size_t i = 0; i < many; ++i) {
      auto part = find_descriptor(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (!part || !part->finalized) return CUDNN_STATUS_BAD_PARAM;
      parts.push_back(std::move(part));
    }
    descriptor->set(name, std::move(parts));
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const std::byte*>(elements);
  descriptor->attributes[name] = {
      .type = type, .count = many, .values = {bytes, bytes + many * size_of(type)}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  const auto descriptor = find_descriptor(handle);
  if (!descriptor || descriptor->finalized) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = complete(*descriptor);
  descriptor->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most,
                                       std::int64_t* count, void* elements) {
  const auto descriptor = find_descriptor(handle);
  if (!descriptor || !descriptor->finalized || most < 0) return CUDNN_STATUS_BAD_PARAM;
  const auto at = descriptor->attributes.find(name);
  if (at == descriptor->attributes.end()) return CUDNN_STATUS_NOT_SUPPORTED;
  const Descriptor::Attribute& attribute = at->second;
  if (type != attribute.type) return CUDNN_STATUS_BAD_PARAM;
  const std::size_t many = std::min(attribute.count, static_cast<std::size_t>(most));
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memcpy(elements, attribute.values.data(), many * size_of(type));
  } else {
    for (std::size_t i = 0; i < many; ++i) {
      const auto filled = find_descriptor(static_cast<cudnnBackendDescriptor_t*>(elements)[i]);
      if (!filled || filled->type != attribute.parts[i]->type) return CUDNN_STATUS_BAD_PARAM;
      *filled = *attribute.parts[i];
    }
  }
  if (count != nullptr) *count = static_cast<std::int64_t>(attribute.count);
  return CUDNN_STATUS_SUCCESS;
}
