/* SPDX-License-Identifier: Apache-2.0
 *
 * base_hash.c - digests and ids. SHA-256 because plans and scripts are told apart by
 * it for good; libcrypto's, because it is there for TLS anyway. */
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/base.h"

static void to_hex(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

/* Fetched once: EVP_sha256() looks its provider up at every digest, which takes longer than the
 * digest of a plan. */
static EVP_MD *sha256;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

void mt_sha256_hex(const void *bytes, size_t len, char out[65])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint8_t digest[32];
    pthread_once(&once, fetch_sha256);
    if (!sha256 || EVP_Digest(bytes, len, digest, NULL, sha256, NULL) != 1) {
        fprintf(stderr, "moontide: libcrypto refuses SHA-256; is its configuration broken?\n");
        _Exit(MT_CLASS_MACHINE);
    }
    to_hex(digest, sizeof digest, out);
}

void mt_uuid(char out[37])
{
    uint8_t r[16];
    char hex[33];
    ssize_t n;
    do {
        n = getrandom(r, sizeof r, 0);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof r) {
        fprintf(stderr, "moontide: the system gives no random bytes: %s\n", strerror(errno));
        _Exit(MT_CLASS_MACHINE);
    }
    r[6] = (uint8_t)((r[6] & 0x0f) | 0x40); /* version 4 */
    r[8] = (uint8_t)((r[8] & 0x3f) | 0x80); /* variant 1 */
    to_hex(r, sizeof r, hex);
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}
