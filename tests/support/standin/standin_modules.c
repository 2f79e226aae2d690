// SPDX-License-Identifier: MIT
// Compiling and loading: a text becomes its name.
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/standin/standin_inside.h"

struct CUfunc_st {
    char name[64];
};
struct CUmod_st {
    struct CUfunc_st function;
};
struct nvrtcProgram_st {
    char text[256], options[4096];
};

const char *standin_function_name(CUfunction function)
{
    return function->name;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (standin.lost)
        return standin.lost;
    if (memcmp(image, STANDIN_MAGIC, sizeof STANDIN_MAGIC - 1) != 0)
        return INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    pthread_mutex_lock(&standin_lock);
    standin.loads++;
    standin.live_modules++;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    standin.live_modules--;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    snprintf(module->function.name, sizeof module->function.name, "%s", name);
    *function = &module->function;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 40
             : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
                                                                    : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    return value < 0 ? INVALID_VALUE : CUDA_SUCCESS;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 99;
    *minor = 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 3;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = 80;
    archs[1] = 90;
    archs[2] = 120;
    return 0;
}

int nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int num_headers,
                       const char *const *headers, const char *const *header_names)
{
    (void)text;
    (void)num_headers;
    (void)headers;
    (void)header_names;
    *program = calloc(1, sizeof **program);
    snprintf((*program)->text, sizeof(*program)->text, "%s%s", STANDIN_MAGIC, name);
    return 0;
}

int nvrtcDestroyProgram(nvrtcProgram *program)
{
    free(*program);
    return 0;
}

int nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options)
{
    (void)program;
    (void)num_options;
    (void)options;
    pthread_mutex_lock(&standin_lock);
    standin.compiles++;
    pthread_mutex_unlock(&standin_lock);
    return standin.fail_compile ? 6 : 0;
}

int nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    *bytes = strlen(program->text) + 1;
    return 0;
}

int nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    strcpy(cubin, program->text);
    return 0;
}

int nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes)
{
    return nvrtcGetCUBINSize(program, bytes);
}

int nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    return nvrtcGetCUBIN(program, ptx);
}

int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = standin.fail_compile ? sizeof "line 1: error of the stand-in" : 1;
    return 0;
}

int nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    strcpy(log, standin.fail_compile ? "line 1: error of the stand-in" : "");
    return 0;
}
