# SPDX-License-Identifier: MIT
# Warnings and sanitizers, as interface libraries that every target links.
add_library(weft_warnings INTERFACE)
target_compile_options(
  weft_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wvla
            -Wpointer-arith
            -Wwrite-strings
            -Wconversion
            -Wno-sign-conversion
            -ffp-contract=off
            -fno-math-errno)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weft_warnings INTERFACE -Wno-psabi)
else()
  # A loop that clang does not unroll, with a sanitizer in it for example, is no error.
  target_compile_options(weft_warnings INTERFACE -Wno-implicit-int-float-conversion
                                                 -Wno-pass-failed)
endif()
if(WEFT_WERROR)
  target_compile_options(weft_warnings INTERFACE -Werror)
endif()

add_library(weft_sanitize INTERFACE)
if(WEFT_SANITIZE)
  set(flags -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer)
  if(WEFT_SANITIZE MATCHES "undefined")
    list(APPEND flags -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(weft_sanitize INTERFACE ${flags})
  target_link_options(weft_sanitize INTERFACE ${flags})
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_sanitize INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_libraries(weft_warnings INTERFACE weft_sanitize)
