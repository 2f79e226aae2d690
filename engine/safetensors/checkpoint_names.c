// SPDX-License-Identifier: MIT
// Names of tensors: "model.layers.7.self_attn.q_proj.weight" is "blk.7.attn_q.weight".
#include <stdio.h>
#include <string.h>

#include "engine/safetensors/checkpoint_parts.h"

// What stands behind the number of a layer. No two families mean different things by one of these, but for
// the norm behind a block (checkpoint_family.post_norms).
static const struct {
    const char *theirs, *ours;
    checkpoint_rows rows;
} modules[] = {
    {"input_layernorm", "attn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"ln_1", "attn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"ln_mlp", "attn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"ln_attn", "attn_norm_2", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn_norm", "attn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.q_proj", "attn_q", CHECKPOINT_ROWS_OF_QUERIES},
    {"self_attn.k_proj", "attn_k", CHECKPOINT_ROWS_OF_KEYS},
    {"self_attn.v_proj", "attn_v", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.o_proj", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.dense", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.qkv_proj", "attn_qkv", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.q_norm", "attn_q_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.k_norm", "attn_k_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.q_a_proj", "attn_q_a", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.q_b_proj", "attn_q_b", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"self_attn.kv_b_proj", "attn_kv_b", CHECKPOINT_ROWS_OF_LATENT},
    {"self_attention.query_key_value", "attn_qkv", CHECKPOINT_ROWS_FUSED},
    {"self_attention.dense", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.query_key_value", "attn_qkv", CHECKPOINT_ROWS_FUSED},
    {"attention.dense", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.c_attn", "attn_qkv", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.c_proj", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.attention.q_proj", "attn_q", CHECKPOINT_ROWS_OF_QUERIES},
    {"attn.attention.k_proj", "attn_k", CHECKPOINT_ROWS_OF_KEYS},
    {"attn.attention.v_proj", "attn_v", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.attention.out_proj", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.Wqkv", "attn_qkv", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.Wo", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attn.out_proj", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.self.query", "attn_q", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.self.key", "attn_k", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.self.value", "attn_v", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.self.layer_norm_q", "attn_q_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.self.layer_norm_k", "attn_k_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"layer_norm_1", "attn_norm_2", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"layer_norm_2", "layer_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mixer.Wqkv", "attn_qkv", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mixer.out_proj", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.output.dense", "attn_output", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"attention.output.LayerNorm", "attn_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"norm1", "attn_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"post_attention_layernorm", "ffn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"pre_feedforward_layernorm", "ffn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"ln_2", "ffn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp_norm", "ffn_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"post_feedforward_layernorm", "post_ffw_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"post_self_attn_layernorm", "post_attention_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"post_mlp_layernorm", "post_ffw_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.gate_proj", "ffn_gate", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.up_proj", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.down_proj", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.gate_up_proj", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.Wi", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.Wo", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.fc1", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.fc2", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.fc11", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.fc12", "ffn_gate", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.gated_layers", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.wo", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.up_gated_layer", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.down_layer", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.layernorm", "layer_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.c_fc", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.c_fc_0", "ffn_gate", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.c_fc_1", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.c_proj", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.dense_h_to_4h", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.dense_4h_to_h", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"intermediate.dense", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"output.dense", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"output.LayerNorm", "layer_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"norm2", "layer_output_norm", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.gate", "ffn_gate_inp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.router", "ffn_gate_inp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.router.layer", "ffn_gate_inp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.experts", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE}, // a bias of all of them together
    {"mlp.switch_mlp.gate_proj", "ffn_gate_exps", CHECKPOINT_ROWS_STACKED},
    {"mlp.switch_mlp.up_proj", "ffn_up_exps", CHECKPOINT_ROWS_STACKED},
    {"mlp.switch_mlp.down_proj", "ffn_down_exps", CHECKPOINT_ROWS_STACKED},
    {"block_sparse_moe.switch_mlp.gate_proj", "ffn_gate_exps", CHECKPOINT_ROWS_STACKED},
    {"block_sparse_moe.switch_mlp.up_proj", "ffn_up_exps", CHECKPOINT_ROWS_STACKED},
    {"block_sparse_moe.switch_mlp.down_proj", "ffn_down_exps", CHECKPOINT_ROWS_STACKED},
    {"mlp.experts.gate_proj", "ffn_gate_exps", CHECKPOINT_ROWS_STACKED},
    {"mlp.experts.up_proj", "ffn_up_exps", CHECKPOINT_ROWS_STACKED},
    {"mlp.experts.down_proj", "ffn_down_exps", CHECKPOINT_ROWS_STACKED},
    {"feed_forward.experts.gate_proj", "ffn_gate_exps", CHECKPOINT_ROWS_STACKED},
    {"feed_forward.experts.up_proj", "ffn_up_exps", CHECKPOINT_ROWS_STACKED},
    {"feed_forward.experts.down_proj", "ffn_down_exps", CHECKPOINT_ROWS_STACKED},
    {"self_attn.embed_q", "attn_k_b", CHECKPOINT_ROWS_STACKED},
    {"self_attn.unembed_out", "attn_v_b", CHECKPOINT_ROWS_STACKED},
    {"block_sparse_moe.gate", "ffn_gate_inp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.gate_proj", "ffn_gate", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.up_proj", "ffn_up", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.down_proj", "ffn_down", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.router", "ffn_gate_inp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", CHECKPOINT_ROWS_AS_THEY_ARE},
};

// Outside the layers.
static const struct {
    const char *theirs, *ours;
} globals[] = {
    {"embed_tokens", "token_embd"},
    {"wte", "token_embd"},
    {"embed_in", "token_embd"},
    {"word_embeddings", "token_embd"},
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.tok_embeddings", "token_embd"},
    {"wpe", "position_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"embeddings.norm", "token_embd_norm"},
    {"emb_ln", "token_embd_norm"},
    {"norm", "output_norm"},
    {"ln_f", "output_norm"},
    {"final_norm", "output_norm"},
    {"final_layernorm", "output_norm"},
    {"final_layer_norm", "output_norm"},
    {"lm_head", "output"},
    {"embed_out", "output"},
    {"pooler.dense", "cls"},
    {"head.dense", "cls"},
    {"head.norm", "cls.norm"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
    {"classifier", "cls.output"},
};

// Tensors that are called neither weight nor bias, behind the number of a layer.
static const struct {
    const char *theirs, *ours;
} singles[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *checkpoint_unwrapped(const char *name)
{
    static const char *const wraps[] = {"language_model.", "model.",   "transformer.", "gpt_neox.",
                                        "bert.",           "roberta.", "encoder."};
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps;)
        if (begins(name, wraps[i])) {
            name += strlen(wraps[i]);
            i = 0;
        } else {
            i++;
        }
    return name;
}

// Behind the number of the layer, which is written in one way; `name` itself outside the layers.
static const char *behind_layer(const char *name, int *layer)
{
    static const char *const words[] = {"layers.%6d.%n", "layer.%6d.%n", "h.%6d.%n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int used = 0;
        char again[32];
        if (sscanf(name, words[i], layer, &used) == 1 && used > 0 && *layer >= 0) {
            size_t word = strcspn(name, ".");
            int length = snprintf(again, sizeof again, "%.*s.%d.", (int)word, name, *layer);
            if (length == used && begins(name, again))
                return name + used;
        }
    }
    *layer = -1;
    return name;
}

static bool is_of_other_senses(const char *name)
{
    static const char *const towers[] = {"vision_tower.",          "vision_model.", "visual.",
                                         "multi_modal_projector.", "mm_projector.", "audio_tower.",
                                         "embed_vision.",          "embed_audio."};
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (begins(name, towers[i]))
            return true;
    return false;
}

// What training left behind and no text needs: masks of attention, heads of encoders that guess words, and
// layers that look further ahead.
static bool is_needless(const checkpoint *c, const char *module, const char *rest, int layer,
                        const char *tail)
{
    static const char *const heads[] = {"cls.", "lm_head", "head.", "decoder", "pooler."};
    bool mask =
        strcmp(tail, ".bias") == 0 && (strcmp(rest, "attn") == 0 || strcmp(rest, "attention") == 0);
    bool ahead = c->layers > 0 && layer >= c->layers &&
                 json_is_integer(json_object_get(c->config, "num_nextn_predict_layers"));
    if (layer >= 0 || !c->family->encoder)
        return (layer >= 0 && (mask || ahead));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (begins(module, heads[i]) && !(c->scores && begins(module, "pooler.")))
            return !c->scores || strcmp(heads[i], "head.") != 0;
    return false;
}

static void write_name(checkpoint_name *name, int layer, const char *ours, const char *tail)
{
    if (layer >= 0)
        snprintf(name->ours, sizeof name->ours, "blk.%d.%.40s%.8s", layer, ours, tail);
    else
        snprintf(name->ours, sizeof name->ours, "%.54s%.8s", ours, tail);
}

checkpoint_use checkpoint_name_of(const checkpoint *c, const char *theirs, checkpoint_name *name)
{
    int layer;
    const char *dot = strrchr(theirs, '.'), *found = NULL, *tail = dot;
    const char *start = checkpoint_unwrapped(theirs), *rest = behind_layer(start, &layer);
    *name = (checkpoint_name){.layer = layer};
    if (is_of_other_senses(start))
        return CHECKPOINT_OF_OTHER_SENSES;
    for (size_t i = 0; layer >= 0 && i < sizeof singles / sizeof *singles; i++)
        if (strcmp(singles[i].theirs, rest) == 0) {
            write_name(name, layer, singles[i].ours, "");
            return CHECKPOINT_USED;
        }
    if (dot && (strcmp(dot, ".qweight") == 0 || strcmp(dot, ".gamma") == 0))
        tail = ".weight";
    else if (dot && strcmp(dot, ".beta") == 0)
        tail = ".bias";
    else if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return CHECKPOINT_NEEDLESS;
    snprintf(name->module, sizeof name->module, "%.*s", (int)(dot - theirs), theirs);
    // (start and rest lie before the dot, or at the tail itself)
    const char *module = name->module + (start - theirs);
    rest = name->module + (rest <= dot ? rest - theirs : dot - theirs);
    if (start > dot || is_needless(c, module, rest, layer, tail))
        return CHECKPOINT_NEEDLESS;
    for (size_t i = 0; layer >= 0 && i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i].theirs, rest) == 0) {
            found = modules[i].ours;
            name->rows = modules[i].rows;
        }
    for (size_t i = 0; layer < 0 && i < sizeof globals / sizeof *globals; i++)
        if (strcmp(globals[i].theirs, module) == 0)
            found = globals[i].ours;
    if (found && c->family->post_norms && strcmp(rest, "post_attention_layernorm") == 0)
        found = "post_attention_norm";
    if (found && c->family->stream_norms && strcmp(rest, "post_attention_layernorm") == 0)
        found = "attn_output_norm";
    if (found && c->family->stream_norms && strcmp(rest, "post_mlp_layernorm") == 0)
        found = "layer_output_norm";
    // an unknown name stays what it is: the engine says that it does not know it
    write_name(name, found ? layer : -1, found ? found : name->module, tail);
    return CHECKPOINT_USED;
}
