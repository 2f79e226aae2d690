# SPDX-License-Identifier: MIT
# Kernels of CUDA on the host: a few problems of every operation, a model's first words and the first tokens of families that ask for kernels of their own; all kernels of linear and attention, and
# embedding of every format, in configuration `long` (ctest -C long). Sanitizers do not know the emulator's fibers.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" OR WEFT_SANITIZE)
  return()
endif()
set(WEFT_EMULATED ON) # tests/cuda/test_emulated_*.c are built

set(emulated_environment
    WEFT_CUDA_DRIVER=$<TARGET_FILE:weft_standin> WEFT_CUDA_NVRTC=$<TARGET_FILE:weft_standin>
    WEFT_CUDA_CUBLASLT=$<TARGET_FILE:weft_standin> STANDIN_RUN=1
    WEFT_CACHE_DIR=${PROJECT_BINARY_DIR}/emulated_kernels WEFT_TUNING=off)

# The command and its arguments, LONG before them where it is no test of every day.
function(weft_add_emulated name)
  cmake_parse_arguments(PARSE_ARGV 1 emulated LONG "" "")
  set(configuration "")
  if(emulated_LONG)
    set(configuration CONFIGURATIONS long)
  endif()
  add_test(NAME emulated_${name} COMMAND ${emulated_UNPARSED_ARGUMENTS} ${configuration})
  set_tests_properties(emulated_${name} PROPERTIES COST 60 ENVIRONMENT "${emulated_environment}")
endfunction()

if(TARGET weft-check)
  set(check weft-check --backend cuda --seed 2 --lengths 2)
  set(replay weft-check --backend cuda --cases 1 --lengths 1 --each 256)
  foreach(op norm rope activation softmax sample kv pages merge round route experts)
    weft_add_emulated(${op} ${check} --op ${op} --cases 2)
  endforeach()
  foreach(variant linear_q4_0_q8 linear_q6_k_q8 attention_bf16 attention_f16)
    weft_add_emulated(${variant} ${check} --variant ${variant}_sm80 --cases 2)
  endforeach()
  # Slices of long rows by teams of warps: seeds whose runs have 9 to 16 rows of X.
  weft_add_emulated(linear_team_q4_0 weft-check --backend cuda --seed 892 --variant linear_q4_0_q8_sm80 --cases 1)
  weft_add_emulated(linear_team_q4_k weft-check --backend cuda --seed 872 --variant linear_q4_k_q8_sm80 --cases 1)
  # Columns over a cluster: two rows of X by plain weights, and a gate; nine rows, some infinite; nine by three parts, with a norm.
  weft_add_emulated(linear_sent_bf16 weft-check --backend cuda --seed 86 --variant linear_bf16_f32_sm80 --cases 1)
  weft_add_emulated(linear_sent_broken weft-check --backend cuda --seed 114 --variant linear_f16_f32_sm80 --cases 1)
  weft_add_emulated(linear_sent_parts weft-check --backend cuda --seed 106 --variant linear_bf16_f32_sm80 --cases 1)
  # Likewise packed weights, whose blocks round X themselves: up to eight rows, more.
  weft_add_emulated(linear_sent_packed weft-check --backend cuda --seed 304 --variant linear_q4_0_q8_sm80 --cases 1)
  weft_add_emulated(linear_sent_packed_more weft-check --backend cuda --seed 330 --variant linear_q4_0_q8_sm80 --cases 1)
  weft_add_emulated(attention_wgmma ${check} --variant attention_bf16_sm90a --cases 3)
  # A token's new key, attention and merging in one launch of clusters.
  weft_add_emulated(attention_token weft-check --backend cuda --seed 22 --variant attention_f16_sm80 --cases 1 --lengths 2)
  # A key with nearly all the weight, followed by many that are less than half a unit of it; and a first score of -6e9, which leaves
  # a step to the next no bits.
  weft_add_emulated(attention_beside_one ${replay} --variant attention_standard_f16_sm80 --seed 77040000 --problem 245)
  weft_add_emulated(attention_first_score LONG ${replay} --variant attention_standard_bf16_sm80 --seed 77300000 --problem 14)
  # A key between two codes of a byte.
  weft_add_emulated(attention_tie LONG ${replay} --variant attention_fp8_e4m3_sm80 --seed 77200001 --problem 117)
  # All that tensor cores cut off goes one way: the bound of an LSE.
  weft_add_emulated(attention_cut LONG weft-check --backend cuda --seed 3005 --variant attention_f16_sm90a --cases 1)
  weft_add_emulated(all_experts LONG ${check} --op experts --cases 16)
  weft_add_emulated(experts_of_f16 LONG ${check} --op experts --format f16 --cases 16) # tiles of many places
  weft_add_emulated(all_embedding LONG ${check} --op embedding --cases 2)
  foreach(part RANGE 1 12)
    weft_add_emulated(all_linear_${part} LONG ${check} --op linear --cases 1 --part ${part}/12)
  endforeach()
  foreach(part RANGE 1 6)
    weft_add_emulated(all_attention_${part} LONG ${check} --op attention --cases 2 --part ${part}/6)
  endforeach()
endif()
if(TARGET weft_standin)
  weft_add_emulated(handed test_cuda_emulated_handed)
  weft_add_emulated(cascade test_cuda_emulated_cascade)
  weft_add_emulated(longest LONG test_cuda_emulated_longest)
  weft_add_emulated(window test_cuda_emulated_window)
  weft_add_emulated(bias test_cuda_emulated_bias)
  weft_add_emulated(attention_device LONG test_kernels_attention_device)
  weft_add_emulated(attention_switches LONG test_kernels_attention_switches)
  foreach(name attention_device attention_switches)
    set_property(TEST emulated_${name} APPEND PROPERTY ENVIRONMENT WEFT_TEST_DEVICE=cuda)
  endforeach()
endif()
if(TARGET weft_cli)
  weft_add_emulated(model ${CMAKE_CURRENT_SOURCE_DIR}/cuda/emulated_model.sh $<TARGET_FILE:weft_cli>
                    ${PROJECT_SOURCE_DIR}/models/demo.gguf)
  # experts without a gate and a bias for all of them; ALiBi
  set(emulated_embed ${CMAKE_CURRENT_SOURCE_DIR}/cuda/emulated_embed.sh $<TARGET_FILE:weft_cli> ${PROJECT_SOURCE_DIR}/tests/golden/checkpoints)
  weft_add_emulated(nomic_bert_moe ${emulated_embed}/nomic_bert_moe)
  weft_add_emulated(jina_bert_v2 LONG ${emulated_embed}/jina_bert_v2)
endif()
if(TARGET weft_engine)
  # a minute each; tests/gpu.sh has all formats
  weft_add_emulated(token_q4_0 test_cuda_emulated_token q4_0)
  weft_add_emulated(token_logits test_cuda_emulated_token q4_k emulated-logits)
  weft_add_emulated(token_q8_0 LONG test_cuda_emulated_token q8_0)
  weft_add_emulated(token_q4_k_m LONG test_cuda_emulated_token q4_k_m emulated-wide)
  weft_add_emulated(token_bf16 test_cuda_emulated_token bf16 emulated-long)
  weft_add_emulated(token_f16 LONG test_cuda_emulated_token f16 emulated-wide)
  foreach(format q4_0 logits q8_0 q4_k_m bf16 f16)
    # all blocks of the launch run at the same time: few, among whom work divides unevenly
    set_property(TEST emulated_token_${format} APPEND PROPERTY ENVIRONMENT STANDIN_SMS=9)
  endforeach()
  weft_add_emulated(llama4 LONG test_engine_beginnings llama4)
  weft_add_emulated(packed_experts test_engine_beginnings packed)
  weft_add_emulated(llama4large LONG test_engine_beginnings llama4large)
  weft_add_emulated(gptoss LONG test_engine_beginnings gptoss)
  weft_add_emulated(invariant LONG test_engine_invariant)
  foreach(name llama4 llama4large packed_experts gptoss invariant)
    set_property(TEST emulated_${name} APPEND PROPERTY ENVIRONMENT WEFT_TEST_DEVICE=cuda)
  endforeach()
endif()
