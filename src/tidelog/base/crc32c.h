/* CRC-32C (Castagnoli): by the processor's instruction where there is one, else by table, eight bytes at a time. */
#ifndef TIDELOG_CRC32C_H
#define TIDELOG_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t tidelog_crc_table[8][256];

/* Once, when a module that uses it is imported. */
static inline void tidelog_crc32c_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
        tidelog_crc_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) {
            uint32_t before = tidelog_crc_table[k - 1][i];
            tidelog_crc_table[k][i] = (before >> 8) ^ tidelog_crc_table[0][before & 0xFF];
        }
}

/* What `crc`, a register that has seen what is before, is after these bytes. A checksum begins with all ones, and is the
   complement of the register at its end. */
static inline uint32_t tidelog_crc32c_register_by_table(uint32_t crc, const unsigned char *data, size_t size) {
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = tidelog_crc_table[7][low & 0xFF] ^ tidelog_crc_table[6][(low >> 8) & 0xFF]
            ^ tidelog_crc_table[5][(low >> 16) & 0xFF] ^ tidelog_crc_table[4][low >> 24]
            ^ tidelog_crc_table[3][data[4]] ^ tidelog_crc_table[2][data[5]]
            ^ tidelog_crc_table[1][data[6]] ^ tidelog_crc_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ tidelog_crc_table[0][(crc ^ *data++) & 0xFF];
    return crc;
}

static inline uint32_t tidelog_crc32c_by_table(const unsigned char *data, size_t size) {
    return ~tidelog_crc32c_register_by_table(0xFFFFFFFFu, data, size);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2")))
static uint32_t tidelog_crc32c_register_by_instruction(uint32_t before, const unsigned char *data, size_t size) {
    uint64_t crc = before, word;
    while (size >= 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
        data += 8;
        size -= 8;
    }
    uint32_t rest = (uint32_t)crc;
    while (size--)
        rest = __builtin_ia32_crc32qi(rest, *data++);
    return rest;
}
static inline uint32_t tidelog_crc32c_register(uint32_t crc, const void *data, size_t size) {
    if (__builtin_cpu_supports("sse4.2"))
        return tidelog_crc32c_register_by_instruction(crc, (const unsigned char *)data, size);
    return tidelog_crc32c_register_by_table(crc, (const unsigned char *)data, size);
}
#else
static inline uint32_t tidelog_crc32c_register(uint32_t crc, const void *data, size_t size) {
    return tidelog_crc32c_register_by_table(crc, (const unsigned char *)data, size);
}
#endif

static inline uint32_t tidelog_crc32c(const void *data, size_t size) {
    return ~tidelog_crc32c_register(0xFFFFFFFFu, data, size);
}
#endif
