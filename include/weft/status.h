// SPDX-License-Identifier: MIT
/** Status codes of every weft call.
 *
 *  Zero is success, errors are negative, and a value is never reused. Results come back through
 *  out-pointers, which stay untouched on failure. The context keeps a sentence that explains the
 *  failure: weft_error_text() in context.h.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/** X(name, value, text): the only list of status codes. */
#define WEFT_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(EINVAL, -1, "invalid argument")                                                              \
    X(ENOMEM, -2, "out of memory")                                                                 \
    X(EUNSUPPORTED, -3, "not supported on this device or by this build")                           \
    X(EDEVICE, -4, "device error")                                                                 \
    X(EWORKSPACE, -5, "workspace missing or too small")                                            \
    X(EOVERFLOW, -6, "size does not fit in 64 bits")                                               \
    X(EVARIANT, -7, "no kernel variant of that name")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, text) WEFT_##name = value,
    WEFT_STATUS_MAP(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/** The general meaning of a status, e.g. "invalid argument".
 *
 *  Threads  any
 *  Errors   none: an unknown value gives "unknown status"
 */
WEFT_API const char *weft_status_text(weft_status status);

#ifdef __cplusplus
}
#endif
#endif
