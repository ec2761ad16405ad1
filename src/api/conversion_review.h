// ConversionReview (apiextensions.k8s.io/v1): the API server's request to convert ComputeDomains, and its answer. Pure.
//
// One object that cannot be converted fails the whole review, and with it every GET, LIST and WATCH of the kind in that version;
// so conversion is lenient, and refuses only what is no ComputeDomain.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cd::api {

// A list of thousands comes in one request.
inline constexpr std::size_t kLongestReview = 64 * 1024 * 1024;

struct ReviewAnswer {
  int http_status = 200;
  std::string body;     // the review with its response; 400: words
  std::string failure;  // why nothing was converted, empty otherwise: for the log
};

// 400: no ConversionReview with a request of a UID. Otherwise 200: all objects, in their order, or result Failure with the index
// of the first that cannot be converted.
ReviewAnswer AnswerConversionReview(std::string_view body);

}  // namespace cd::api
