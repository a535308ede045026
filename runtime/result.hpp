// Errors are values. A function that can fail returns Result<T> or Status. An error says what went
// wrong, where, and what the user can do. Only `main` turns an ErrorKind into an exit code.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <variant>

namespace omni {

enum class ErrorKind { failed, usage, data, out_of_memory, device, diverged, interrupted };

struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string where;  // "lenet.cfg:12", a path, a codelet; may be empty
  std::string what;
  std::string hint;  // what to do; may be empty

  std::string message() const {
    std::string text = where.empty() ? what : where + ": " + what;
    return hint.empty() ? text : text + " (" + hint + ")";
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result() requires std::same_as<T, std::monostate> {}
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<std::monostate>;

}  // namespace omni

#define OMNI_CONCAT_(a, b) a##b
#define OMNI_CONCAT(a, b) OMNI_CONCAT_(a, b)

// Returns the error from the enclosing function, if there is one.
#define OMNI_CHECK(expression)                                                                \
  do {                                                                                        \
    if (auto omni_status = (expression); !omni_status) return std::move(omni_status.error()); \
  } while (false)

// OMNI_TRY(auto spec, parse(path)) declares `spec` with the value, or returns the error from the
// enclosing function.
#define OMNI_TRY(declaration, expression) \
  OMNI_TRY_(OMNI_CONCAT(omni_result_, __LINE__), declaration, expression)
#define OMNI_TRY_(result, declaration, expression) \
  auto result = (expression);                      \
  if (!result) return std::move(result.error());   \
  declaration = std::move(*result)
