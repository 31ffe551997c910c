// Makes libcurl callable from Swift. Only variadic functions and what hides behind macros are wrapped here: each
// wrapper fixes the type of the one argument behind the option. No logic lives in this file.
#ifndef ATTESTGATE_CCURL_SHIM_H
#define ATTESTGATE_CCURL_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <curl/curl.h>

static inline CURLcode ag_curl_set_long(CURL *curl, CURLoption option, long value) {
    return curl_easy_setopt(curl, option, value);
}
static inline CURLcode ag_curl_set_offset(CURL *curl, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(curl, option, value);
}
// libcurl copies strings, but for CURLOPT_POSTFIELDS.
static inline CURLcode ag_curl_set_string(CURL *curl, CURLoption option, const char *value) {
    return curl_easy_setopt(curl, option, value);
}
static inline CURLcode ag_curl_set_pointer(CURL *curl, CURLoption option, void *value) {
    return curl_easy_setopt(curl, option, value);
}
static inline CURLcode ag_curl_set_list(CURL *curl, CURLoption option, struct curl_slist *list) {
    return curl_easy_setopt(curl, option, list);
}
typedef size_t (*ag_curl_receiver)(char *bytes, size_t size, size_t count, void *context);
static inline CURLcode ag_curl_set_receiver(CURL *curl, CURLoption option, ag_curl_receiver receiver) {
    return curl_easy_setopt(curl, option, receiver);
}
static inline CURLMcode ag_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLcode ag_curl_get_long(CURL *curl, CURLINFO info, long *value) {
    return curl_easy_getinfo(curl, info, value);
}

#endif
