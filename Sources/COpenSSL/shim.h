// Makes OpenSSL 3 callable from Swift. Only what Swift's importer cannot see is wrapped here:
// function-like macros and variadic functions. No logic lives in this file.
#ifndef ATTESTGATE_COPENSSL_SHIM_H
#define ATTESTGATE_COPENSSL_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/obj_mac.h>
#include <openssl/ocsp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static inline long ag_ssl_ctx_set_min_proto_version(SSL_CTX *ctx, int version) {
    return SSL_CTX_set_min_proto_version(ctx, version);
}
static inline long ag_ssl_ctx_set_max_proto_version(SSL_CTX *ctx, int version) {
    return SSL_CTX_set_max_proto_version(ctx, version);
}
static inline int ag_ssl_ctx_get_min_proto_version(SSL_CTX *ctx) { return (int)SSL_CTX_get_min_proto_version(ctx); }
static inline int ag_ssl_ctx_get_max_proto_version(SSL_CTX *ctx) { return (int)SSL_CTX_get_max_proto_version(ctx); }
static inline long ag_ssl_set_min_proto_version(SSL *ssl, int version) { return SSL_set_min_proto_version(ssl, version); }
static inline long ag_ssl_set_max_proto_version(SSL *ssl, int version) { return SSL_set_max_proto_version(ssl, version); }
static inline long ag_ssl_ctx_set_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_mode(ctx, mode); }
static inline long ag_ssl_ctx_clear_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_clear_mode(ctx, mode); }
static inline long ag_ssl_ctx_set_max_cert_list(SSL_CTX *ctx, long octets) { return SSL_CTX_set_max_cert_list(ctx, octets); }
static inline void ag_ssl_ctx_set_read_ahead(SSL_CTX *ctx, int on) { SSL_CTX_set_read_ahead(ctx, on); }
static inline long ag_ssl_ctx_set_session_cache_mode(SSL_CTX *ctx, long mode) {
    return SSL_CTX_set_session_cache_mode(ctx, mode);
}
static inline long ag_ssl_ctx_set1_groups_list(SSL_CTX *ctx, const char *list) {
    return SSL_CTX_set1_groups_list(ctx, list);
}
static inline long ag_ssl_set1_groups_list(SSL *ssl, const char *list) { return SSL_set1_groups_list(ssl, list); }
static inline int ag_ssl_get_negotiated_group(SSL *ssl) { return (int)SSL_get_negotiated_group(ssl); }
static inline long ag_ssl_ctx_set1_sigalgs_list(SSL_CTX *ctx, const char *list) {
    return SSL_CTX_set1_sigalgs_list(ctx, list);
}
static inline long ag_ssl_ctx_set1_client_sigalgs_list(SSL_CTX *ctx, const char *list) {
    return SSL_CTX_set1_client_sigalgs_list(ctx, list);
}
static inline long ag_ssl_ctx_set_tlsext_status_cb(SSL_CTX *ctx, int (*callback)(SSL *, void *)) {
    return SSL_CTX_set_tlsext_status_cb(ctx, callback);
}
static inline long ag_ssl_set_tlsext_status_ocsp_resp(SSL *ssl, unsigned char *response, long length) {
    return SSL_set_tlsext_status_ocsp_resp(ssl, response, length);
}
static inline long ag_ssl_ctx_add1_chain_cert(SSL_CTX *ctx, X509 *certificate) {
    return SSL_CTX_add1_chain_cert(ctx, certificate);
}
static inline uint64_t ag_ssl_server_options(void) {
    return SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
           SSL_OP_PRIORITIZE_CHACHA | SSL_OP_IGNORE_UNEXPECTED_EOF;
}
static inline uint64_t ag_ssl_no_ticket(void) {
    return SSL_OP_NO_TICKET;
}
static inline uint64_t ag_ssl_client_options(void) {
    return SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF;
}
// Whether an information callback tells of the peer's close_notify.
static inline int ag_ssl_is_close_notify(int where, int value) {
    return where == SSL_CB_READ_ALERT && (value & 0xff) == SSL_AD_CLOSE_NOTIFY;
}
static inline long ag_ssl_set_tlsext_host_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}
static inline int ag_ssl_get_ex_new_index(CRYPTO_EX_free *free_function) {
    return SSL_get_ex_new_index(0, NULL, NULL, NULL, free_function);
}
static inline int ag_ssl_session_get_ex_new_index(CRYPTO_EX_dup *dup_function, CRYPTO_EX_free *free_function) {
    return SSL_SESSION_get_ex_new_index(0, NULL, NULL, dup_function, free_function);
}
static inline int ag_ssl_ctx_get_ex_new_index(void) { return SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL); }
static inline int ag_err_get_reason(unsigned long code) { return ERR_GET_REASON(code); }
static inline int ag_err_get_lib(unsigned long code) { return ERR_GET_LIB(code); }
static inline int ag_bio_get_mem_data(BIO *bio, char **out) { return (int)BIO_get_mem_data(bio, out); }
static inline EVP_PKEY *ag_generate_p256(OSSL_LIB_CTX *library) { return EVP_PKEY_Q_keygen(library, NULL, "EC", "P-256"); }
static inline EVP_PKEY *ag_generate_p384(OSSL_LIB_CTX *library) { return EVP_PKEY_Q_keygen(library, NULL, "EC", "P-384"); }
static inline EVP_PKEY *ag_generate_brainpool_p256(OSSL_LIB_CTX *library) {
    return EVP_PKEY_Q_keygen(library, NULL, "EC", "brainpoolP256r1");
}
// Entries of parameter lists keep pointers to their names: in Swift these would be strings that live for one call only.
static inline OSSL_PARAM ag_param_digest_sha256(void) {
    return OSSL_PARAM_construct_utf8_string(OSSL_ALG_PARAM_DIGEST, (char *)"SHA256", 0);
}
static inline OSSL_PARAM ag_param_group_p256(void) {
    return OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)"P-256", 0);
}
static inline OSSL_PARAM ag_param_public_key(const unsigned char *point, size_t length) {
    return OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)point, length);
}
static inline int ag_param_bld_push_rsa(OSSL_PARAM_BLD *builder, const BIGNUM *modulus, const BIGNUM *exponent) {
    return OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
           OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent) == 1;
}
static inline OSSL_PARAM ag_param_kdf_key(const unsigned char *key, size_t length) {
    return OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, length);
}
static inline OSSL_PARAM ag_param_kdf_salt(const unsigned char *salt, size_t length) {
    return OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, length);
}
static inline OSSL_PARAM ag_param_kdf_info(const unsigned char *info, size_t length) {
    return OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, length);
}
static inline int ag_evp_pkey_public_key(void) { return EVP_PKEY_PUBLIC_KEY; }
static inline unsigned long ag_xn_flag_rfc2253(void) { return XN_FLAG_RFC2253; }
static inline int ag_sk_x509_num(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }
static inline X509 *ag_sk_x509_value(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline X509 *ag_sk_x509_pop(STACK_OF(X509) *stack) { return sk_X509_pop(stack); }
static inline int ag_sk_x509_revoked_num(const STACK_OF(X509_REVOKED) *stack) { return sk_X509_REVOKED_num(stack); }
static inline X509_REVOKED *ag_sk_x509_revoked_value(const STACK_OF(X509_REVOKED) *stack, int index) {
    return sk_X509_REVOKED_value(stack, index);
}
static inline STACK_OF(X509) *ag_sk_x509_new(void) { return sk_X509_new_null(); }
static inline int ag_sk_x509_push(STACK_OF(X509) *stack, X509 *certificate) { return sk_X509_push(stack, certificate); }
static inline void ag_sk_x509_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
static inline void ag_sk_x509_pop_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }
static inline int ag_sk_cms_signer_num(const STACK_OF(CMS_SignerInfo) *stack) { return sk_CMS_SignerInfo_num(stack); }
static inline CMS_SignerInfo *ag_sk_cms_signer_value(const STACK_OF(CMS_SignerInfo) *stack, int index) {
    return sk_CMS_SignerInfo_value(stack, index);
}
// Seconds since 1970. OpenSSL 3.3 has other names for these calls, and warns of the old ones.
#if OPENSSL_VERSION_NUMBER >= 0x30300000L
static inline time_t ag_ssl_session_get_time(const SSL_SESSION *session) { return SSL_SESSION_get_time_ex(session); }
static inline void ag_ssl_session_set_time(SSL_SESSION *session, time_t time) { SSL_SESSION_set_time_ex(session, time); }
#else
static inline time_t ag_ssl_session_get_time(const SSL_SESSION *session) { return SSL_SESSION_get_time(session); }
static inline void ag_ssl_session_set_time(SSL_SESSION *session, time_t time) { SSL_SESSION_set_time(session, time); }
#endif
static inline void ag_sk_x509_name_pop_free(STACK_OF(X509_NAME) *stack) { sk_X509_NAME_pop_free(stack, X509_NAME_free); }
static inline STACK_OF(X509_NAME) *ag_sk_x509_name_new(void) { return sk_X509_NAME_new_null(); }
static inline int ag_sk_x509_name_push(STACK_OF(X509_NAME) *stack, X509_NAME *name) {
    return sk_X509_NAME_push(stack, name);
}

#endif
