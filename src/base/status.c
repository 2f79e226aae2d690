// SPDX-License-Identifier: MIT
#include <weft/status.h>

const char *weft_status_text(weft_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case WEFT_##name: return text;
        WEFT_STATUS_MAP(STATUS_TEXT)
    }
    return "unknown status";
}
