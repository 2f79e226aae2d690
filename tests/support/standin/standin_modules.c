// SPDX-License-Identifier: MIT
// Compiling and loading: a text becomes its name, and with the emulator a library as well.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/standin/standin_inside.h"

struct CUfunc_st {
    char name[64];
    void *library, *kernel; // with the emulator
};
struct CUmod_st {
    struct CUfunc_st function;
};

// With the emulator a program keeps its texts till it is compiled; machine code is STANDIN_MAGIC, the text's
// name, a zero byte and the library.
struct nvrtcProgram_st {
    char name[256], log[4096];
    const char *text, *const *headers, *const *header_names;
    int num_headers;
    void *library;
    size_t library_bytes;
};

static bool runs;

static __attribute__((constructor)) void find_out(void)
{
    runs = getenv("STANDIN_RUN") != NULL;
}

bool standin_runs(void)
{
    return runs;
}

const char *standin_function_name(CUfunction function)
{
    return function->name;
}

void standin_function_run(CUfunction function, struct emulator_launch *launch)
{
    launch->handle = function->library;
    launch->kernel = function->kernel;
    launch->name = function->name;
    emulator_launch(launch);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (standin.lost)
        return standin.lost;
    if (memcmp(image, STANDIN_MAGIC, sizeof STANDIN_MAGIC - 1) != 0)
        return INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    if (standin_runs()) {
        const char *library = (const char *)image + strlen(image) + 1;
        size_t bytes = 0;
        memcpy(&bytes, library, sizeof bytes);
        (*module)->function.library = emulator_load(library + sizeof bytes, bytes);
        if (!(*module)->function.library)
            return INVALID_IMAGE;
    }
    pthread_mutex_lock(&standin_lock);
    standin.loads++;
    standin.live_modules++;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    if (module->function.library)
        emulator_unload(module->function.library);
    free(module);
    standin.live_modules--;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    snprintf(module->function.name, sizeof module->function.name, "%s", name);
    *function = &module->function;
    if (standin_runs())
        module->function.kernel = emulator_kernel(module->function.library, name);
    return !standin_runs() || module->function.kernel ? CUDA_SUCCESS : NOT_FOUND;
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
    *program = calloc(1, sizeof **program);
    snprintf((*program)->name, sizeof(*program)->name, "%s%s", STANDIN_MAGIC, name);
    (*program)->text = text;
    (*program)->num_headers = num_headers;
    (*program)->headers = headers;
    (*program)->header_names = header_names;
    return 0;
}

int nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->library);
    free(*program);
    return 0;
}

int nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options)
{
    pthread_mutex_lock(&standin_lock);
    standin.compiles++;
    pthread_mutex_unlock(&standin_lock);
    if (standin.fail_compile)
        strcpy(program->log, "line 1: error of the stand-in");
    else if (standin_runs())
        program->library =
            emulator_compile(program->text, program->name, program->num_headers, program->headers,
                             program->header_names, num_options, options, &program->library_bytes,
                             program->log, sizeof program->log);
    return standin.fail_compile || (standin_runs() && !program->library) ? 6 : 0;
}

int nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    *bytes = strlen(program->name) + 1;
    if (program->library)
        *bytes += sizeof program->library_bytes + program->library_bytes;
    return 0;
}

int nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    char *end = stpcpy(cubin, program->name) + 1;
    if (program->library) {
        memcpy(end, &program->library_bytes, sizeof program->library_bytes);
        memcpy(end + sizeof program->library_bytes, program->library, program->library_bytes);
    }
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
    *bytes = strlen(program->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    strcpy(log, program->log);
    return 0;
}
