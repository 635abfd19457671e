/* The gate: every entry point passes it, and faults on demand happen in it.
 * ALLOCMARK_EMULATOR_FAULTS holds rules separated by ';', each FUNCTION@N=ACTION or
 * FUNCTION@N+=ACTION (from the Nth call on); FUNCTION '*' counts all driver and runtime calls of
 * the process together. Actions: error:CODE, delay:MILLISECONDS, steal:BYTES, lost[:CODE], hang,
 * crash. Calls are counted in each process by itself. */
#define _GNU_SOURCE
#include "emu.h"
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum action { ERROR, DELAY, STEAL, LOST, HANG, CRASH };
struct rule {
    char function[64];
    uint64_t nth;
    int onwards;
    enum action action;
    double amount;
};
static struct rule rules[32];
static size_t rule_count;
static uint64_t all_calls;
static int lost_error, forked;
static int armed = 1; /* until the first call has read the configuration */
static pthread_once_t once = PTHREAD_ONCE_INIT;
enum { NVML_GPU_IS_LOST = 15 };

static const struct {
    const char *word;
    enum action action;
    double amount;
} actions[] = {{"error", ERROR, 999}, {"delay", DELAY, 0}, {"steal", STEAL, 0},
               {"lost", LOST, EMU_LAUNCH_FAILED}, {"hang", HANG, 0}, {"crash", CRASH, 0}};

/* Takes the text apart; returns whether it is a rule. */
static int parse_rule(char *text, struct rule *rule) {
    char *at = strchr(text, '@'), *equals = strchr(text, '=');
    if (!at || !equals || equals < at) return 0;
    *at++ = 0;
    *equals++ = 0;
    char *end, *amount = strchr(equals, ':');
    if (amount) *amount++ = 0;
    rule->nth = strtoull(at, &end, 10);
    rule->onwards = *end == '+';
    if (end == at || end[rule->onwards] || !rule->nth) return 0;
    if (!*text || strlen(text) >= sizeof rule->function) return 0;
    strcpy(rule->function, text);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].word, equals)) continue;
        rule->action = actions[i].action;
        rule->amount = amount ? strtod(amount, &end) : actions[i].amount;
        return !amount || (end != amount && !*end);
    }
    return 0;
}

static void in_child(void) {
    /* As CUDA, which cannot be used in a child of a process that has initialised it. */
    forked = emu_initialised();
    armed = 1;
    emu_shared_after_fork();
}

static void prepare(void) {
    emu_setup();
    pthread_atfork(NULL, NULL, in_child);
    const char *wish = getenv("ALLOCMARK_EMULATOR_FAULTS");
    char *copy = strdup(wish ? wish : ""), *rest = copy, *text;
    while ((text = strsep(&rest, ";"))) {
        text += strspn(text, " ");
        if (!*text || rule_count == sizeof rules / sizeof *rules) continue;
        char *whole = strdup(text);
        if (!parse_rule(text, &rules[rule_count++])) { /* a run without its fault would prove nothing */
            fprintf(stderr, "allocmark emulator: the fault rule '%s' is not understood: write "
                            "FUNCTION@N=ACTION, as in cudaMalloc@3=error:2 (docs/emulator.md)\n", whole);
            _exit(2);
        }
        free(whole);
    }
    free(copy);
    if (!rule_count) armed = 0;
}

static int same_function(const char *rule, const char *name) {
    size_t length = strlen(rule);
    if (strncmp(rule, name, length)) return 0;
    const char *rest = name + length;
    return !*rest || (rest[0] == '_' && rest[1] == 'v' && isdigit(rest[2]));
}

static int act(const struct rule *rule, uint64_t count, const char *name) {
    switch (rule->action) {
    case ERROR: return (int)rule->amount;
    case LOST: return lost_error = (int)rule->amount;
    case STEAL:
        if (count == rule->nth) emu_steal(emu_card(*emu_current_device()), (size_t)rule->amount);
        return 0;
    case DELAY: {
        double seconds = rule->amount / 1e3;
        struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
        nanosleep(&t, NULL);
        return 0;
    }
    case HANG:
        for (;;) pause();
    case CRASH:
        fprintf(stderr, "allocmark emulator: %s crashes on demand\n", name);
        abort();
    }
    return 0;
}

static int enter_armed(struct emu_site *site) {
    pthread_once(&once, prepare);
    if (!site->is_nvml && forked) return EMU_NOT_INITIALIZED;
    if (!rule_count) return 0;
    if (lost_error) return site->is_nvml ? NVML_GPU_IS_LOST : lost_error;
    uint64_t calls = __atomic_add_fetch(&site->calls, 1, __ATOMIC_RELAXED);
    uint64_t all = site->is_nvml ? 0 : __atomic_add_fetch(&all_calls, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        int any = !strcmp(rule->function, "*");
        if (any ? site->is_nvml : !same_function(rule->function, site->name)) continue;
        uint64_t count = any ? all : calls;
        if (count != rule->nth && !(rule->onwards && count > rule->nth)) continue;
        int error = act(rule, count, site->name);
        if (error) return error;
    }
    return 0;
}

int emu_enter(struct emu_site *site) {
    if (__builtin_expect(!__atomic_load_n(&armed, __ATOMIC_RELAXED), 1)) return 0;
    return enter_armed(site);
}
