# SPDX-License-Identifier: MIT
# Instruction sets by file suffix. The negative flags keep the compiler from straying into a level
# that the dispatcher has not asked the CPU for.
set(WEFT_ISA_avx2 -mavx2 -mfma -mf16c -mno-avx512f)
set(WEFT_ISA_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd
                    -mno-avx512vnni -mno-avx512vbmi)
set(WEFT_ISA_avx512vnni -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd
                        -mavx512vnni -mavx512vbmi -mgfni)
set(WEFT_ISA_avx512bf16 ${WEFT_ISA_avx512vnni} -mavx512bf16)
set(WEFT_ISA_neon "")
set(WEFT_ISA_neondot -march=armv8.2-a+dotprod)

set(WEFT_ISAS_X86 avx2 avx512 avx512vnni avx512bf16)
set(WEFT_ISAS_ARM neon neondot)

# Drops the sources of instruction sets that the target architecture does not have.
function(weft_isa_filter list)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(foreign ${WEFT_ISAS_ARM})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(foreign ${WEFT_ISAS_X86})
  else()
    set(foreign ${WEFT_ISAS_X86} ${WEFT_ISAS_ARM})
  endif()
  foreach(isa ${foreign})
    list(FILTER ${list} EXCLUDE REGEX "_${isa}\\.c$")
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# The unrolled kernels take minutes to compile when every intrinsic carries its checks. Bounds are what
# weft-check cannot see without a sanitizer, so AddressSanitizer stays; for ThreadSanitizer (kernels are
# serial, the reference ones tell how tasks are split) and for fuzzing they are compiled plainly.
set(WEFT_ISA_SANITIZE "")
if(WEFT_SANITIZE MATCHES "fuzzer|thread")
  set(WEFT_ISA_SANITIZE -fno-sanitize=all)
elseif(WEFT_SANITIZE)
  set(WEFT_ISA_SANITIZE -O1 -fno-sanitize=undefined)
endif()

# Gives every source the flags that its suffix asks for.
function(weft_isa_flags)
  foreach(source ${ARGN})
    if(source MATCHES "_([a-z0-9]+)\\.c$")
      # A condition of its own: if() expands all of its words before it matches.
      set(isa ${CMAKE_MATCH_1})
      if(DEFINED WEFT_ISA_${isa})
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${WEFT_ISA_${isa}};${WEFT_ISA_SANITIZE}")
      endif()
    endif()
  endforeach()
endfunction()
