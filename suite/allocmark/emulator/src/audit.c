/* LD_AUDIT library: names the emulated libraries when the dynamic linker looks for the real ones,
 * whoever asks and however (DT_NEEDED, DT_RPATH, dlopen by name or by path). A process that never
 * asks for one pays for a few string comparisons a library. It has no libc and does nothing else.
 * The build defines REDIRECTIONS. */
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
static const struct {
    const char *name, *path;
    int last_resort; /* only where no real library was found, which may well serve as it is */
} redirections[] = {REDIRECTIONS};
enum { SEARCHING_DEFAULT_FOLDERS = 0x40 }; /* LA_SER_DEFAULT, the linker's last search */

static int equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

API unsigned la_version(unsigned version);
unsigned la_version(unsigned version) { return version; }

API char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
    (void)cookie;
    const char *file = name;
    for (const char *p = name; *p; p++)
        if (*p == '/') file = p + 1;
    for (size_t i = 0; i < sizeof redirections / sizeof *redirections; i++)
        if (equal(file, redirections[i].name) &&
            (!redirections[i].last_resort || flag == SEARCHING_DEFAULT_FOLDERS))
            return (char *)redirections[i].path;
    return (char *)name;
}
