// SPDX-License-Identifier: MIT
// What config.json says of quantised weights.
#include <string.h>

#include "engine/safetensors/checkpoint_parts.h"

// GPTQ or AWQ; 4 bits, GPTQ 8 too.
static bool read_integers(checkpoint *c, const json_t *of, bool awq, engine_error *err)
{
    const json_t *bits = json_object_get(of, "bits"), *group = json_object_get(of, "group_size");
    const char *layout =
        json_string_value(json_object_get(of, awq ? "version" : "checkpoint_format"));
    c->integers.bits = json_integer_value(bits);
    c->integers.group = json_is_integer(group) ? json_integer_value(group) : 128;
    c->integers.awq = awq;
    c->integers.zero_offset = awq || (layout && strcmp(layout, "gptq_v2") == 0) ? 0 : 1;
    if (c->integers.bits != 4 && (awq || c->integers.bits != 8))
        return engine_fail(err, "config.json: weights of %s with %lld bits cannot be read yet",
                           awq ? "AWQ" : "GPTQ", (long long)c->integers.bits);
    if (layout && strcmp(layout, "gemm") != 0 && strcmp(layout, "gptq") != 0 &&
        strcmp(layout, "gptq_v2") != 0)
        return engine_fail(err, "config.json: weights laid out for '%.32s' cannot be read yet",
                           layout);
    return true;
}

bool checkpoint_read_quantization(checkpoint *c, engine_error *err)
{
    const json_t *mlx = json_object_get(c->config, "quantization");
    const json_t *other = json_object_get(c->config, "quantization_config");
    const char *known, *mode = checkpoint_mlx_modes(mlx, &known);
    const char *method = json_string_value(json_object_get(other, "quant_method"));
    if (mode)
        return engine_fail(
            err, "MLX quantisation of mode '%.32s' cannot be read yet: weft reads %s", mode, known);
    if (method && (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0))
        return read_integers(c, other, method[0] == 'a', err);
    const char *form = json_string_value(json_object_get(other, "format"));
    bool int8 = method && strcmp(method, "compressed-tensors") == 0 && form &&
                strcmp(form, "int-quantized") == 0;
    if (method && strcmp(method, "mxfp4") == 0 && strcmp(c->family->model_type, "gpt_oss") == 0)
        return true; // its experts alone, whose tensors have names of their own
    if (method && strcmp(method, "fp8") != 0 && !int8)
        return engine_fail(err,
                           "weights quantised by %.32s cannot be read yet: weft reads MLX's affine "
                           "ones, GPTQ, AWQ, fp8 and int8 with scales",
                           method);
    c->quantization = json_is_object(mlx) ? mlx : NULL;
    return true;
}
