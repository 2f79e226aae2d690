// SPDX-License-Identifier: MIT
// What config.json says of experts, under GGUF's keys.
#include <string.h>

#include "engine/safetensors/checkpoint_keys.h"

// How the experts of a token are chosen, where the config says.
static bool put_routing(const checkpoint_writer *w)
{
    char key[128];
    int64_t groups, used, shared, dense;
    const json_t *config = w->c->config;
    const char *method = json_string_value(json_object_get(config, "topk_method"));
    const char *score = json_string_value(json_object_get(config, "scoring_func"));
    bool grouped = !method || strcmp(method, "greedy") != 0;
    if (score)
        gguf_output_u32(w->output, checkpoint_key(w, "expert_gating_func", key),
                        strcmp(score, "sigmoid") == 0 ? 2 : 1);
    if (grouped && (!checkpoint_put_int(w, "n_group", "expert_group_count", 0, &groups) ||
                    !checkpoint_put_int(w, "topk_group", "expert_group_used_count", 0, &used)))
        return false;
    const json_t *first = json_object_get(config, "first_k_dense_replace");
    dense = json_integer_value(first);
    if (json_is_integer(first) && dense >= 0 && dense < INT32_MAX)
        gguf_output_u32(w->output, checkpoint_key(w, "leading_dense_block_count", key),
                        (uint32_t)dense);
    return checkpoint_put_int(w, "n_shared_experts", "expert_shared_count", 0, &shared) &&
           checkpoint_put_float(w, config, "routed_scaling_factor", "expert_weights_scale");
}

// Which layers have experts, where not all have: as the config has it, the last of every so many.
static bool put_places(const checkpoint_writer *w)
{
    int64_t step, expected, period;
    const json_t *places = json_object_get(w->c->config, "moe_layers"), *one;
    size_t n;
    bool fits = true;
    if (!checkpoint_put_int(w, "interleave_moe_layer_step", "interleave_moe_layer_step", 0,
                            &step) ||
        (w->c->family->some_sparse &&
         !checkpoint_put_int(w, "moe_every_n_layers", "moe_every_n_layers", 0, &period)))
        return false;
    expected = step - 1;
    json_array_foreach(places, n, one)
    {
        fits = fits && json_is_integer(one) && json_integer_value(one) == expected;
        expected += step;
    }
    return (fits && (!json_is_array(places) || expected >= w->c->layers)) ||
           engine_fail(w->err, "config.json: layers with experts ('moe_layers') that are not the "
                               "last of every so many cannot run yet");
}

// The numbers of a mixture.
bool checkpoint_put_experts(const checkpoint_writer *w)
{
    char key[128];
    int64_t used, wide, shared;
    const json_t *norm = json_object_get(w->c->config, "norm_topk_prob");
    if (!checkpoint_read_int(w, w->c->config, "num_experts", 0, &w->c->experts))
        return false;
    if (w->c->experts == 0)
        return true;
    gguf_output_u32(w->output, checkpoint_key(w, "expert_count", key), (uint32_t)w->c->experts);
    if (json_is_boolean(norm))
        gguf_output_bool(w->output, checkpoint_key(w, "expert_weights_norm", key),
                         json_is_true(norm));
    return checkpoint_put_int(w, "num_experts_per_tok", "expert_used_count", -1, &used) &&
           checkpoint_put_int(w, "moe_intermediate_size", "expert_feed_forward_length", 0, &wide) &&
           checkpoint_put_int(w, "shared_expert_intermediate_size",
                              "expert_shared_feed_forward_length", 0, &shared) &&
           put_places(w) && put_routing(w);
}
