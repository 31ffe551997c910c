package org.attestgate.trustclient;

import java.security.cert.CertificateEncodingException;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What an enrolled phone keeps. It contains no secret. A value never changes. */
final class Phone {
    /** How the aliases of all keys begin. */
    static final String ALIAS = "org.attestgate.";

    private final EnrolmentRecord record;
    private final String key;
    private final String keyTag;
    private final String nextKey;
    private final EnrolledCertificate certificate;
    private final List<String> retired;

    private Phone(
        EnrolmentRecord record, String key, String keyTag, String nextKey, EnrolledCertificate certificate,
        List<String> retired) {
        this.record = record;
        this.key = key;
        this.keyTag = keyTag;
        this.nextKey = nextKey;
        this.certificate = certificate;
        this.retired = retired;
    }

    Phone(EnrolmentRecord record) {
        this(record, null, null, null, null, Collections.emptyList());
    }

    /** Returns the alias of the hardware key with this tag. */
    static String hardwareAlias(String tag) {
        return ALIAS + tag;
    }

    EnrolmentRecord record() {
        return record;
    }

    /** The alias of the certificate key, or null. */
    String key() {
        return key;
    }

    /** The tag of the hardware key to which the certificate key is bound, or null. */
    String keyTag() {
        return keyTag;
    }

    /** The alias of a certificate key that is to be bound, or null. */
    String nextKey() {
        return nextKey;
    }

    /** The certificate of {@code key}, or null. */
    EnrolledCertificate certificate() {
        return certificate;
    }

    /** The aliases of the keys that the last enrolment replaced. */
    List<String> retired() {
        return retired;
    }

    Phone with(EnrolmentRecord newRecord) {
        return new Phone(newRecord, key, keyTag, nextKey, certificate, retired);
    }

    Phone withNextKey(String alias) {
        return new Phone(record, key, keyTag, alias, certificate, retired);
    }

    Phone bound(String alias, EnrolledCertificate newCertificate) {
        List<String> replaced = new ArrayList<>();
        if (key != null && !key.equals(alias)) replaced.add(key);
        if (keyTag != null && !keyTag.equals(record.tag())) replaced.add(hardwareAlias(keyTag));
        // A renewal replaces no key.
        return new Phone(record, alias, record.tag(), null, newCertificate, replaced.isEmpty() ? retired : replaced);
    }

    String json() {
        StringBuilder json = new StringBuilder("{\"record\":").append(record.json());
        if (nextKey != null) json.append(",\"next_certificate_key\":").append(Json.quote(nextKey));
        if (key != null) {
            json.append(",\"certificate_key\":").append(Json.quote(key));
            json.append(",\"certificate_key_tag\":").append(Json.quote(keyTag));
            json.append(",\"certificate_chain\":").append(list(encodings(certificate)));
            json.append(",\"expires_at\":").append(certificate.expiresAt());
        }
        return json.append(",\"retired_keys\":").append(list(retired)).append('}').toString();
    }

    /** Decodes the result of {@link #json}. Returns null for anything else. */
    @SuppressWarnings("unchecked")
    static Phone parse(String json) {
        Map<String, Object> form = Json.object(json);
        Object recordForm = form == null ? null : form.get("record");
        EnrolmentRecord record =
            recordForm instanceof Map ? EnrolmentRecord.parse((Map<String, Object>) recordForm) : null;
        List<String> retired = Json.texts(form, "retired_keys");
        if (record == null || retired == null) return null;
        String key = Json.text(form, "certificate_key");
        String keyTag = Json.text(form, "certificate_key_tag");
        String nextKey = Json.text(form, "next_certificate_key");
        if (key == null) return new Phone(record, null, null, nextKey, null, retired);
        List<String> chain = Json.texts(form, "certificate_chain");
        Long expiresAt = Json.integer(form, "expires_at");
        if (keyTag == null || chain == null || chain.isEmpty() || expiresAt == null) return null;
        List<byte[]> decoded = new ArrayList<>();
        for (String text : chain) {
            byte[] encoding = Bytes.decodeBase64(text);
            if (encoding == null) return null;
            decoded.add(encoding);
        }
        EnrolledCertificate certificate = EnrolledCertificate.parse(decoded, expiresAt);
        return certificate == null ? null : new Phone(record, key, keyTag, nextKey, certificate, retired);
    }

    private static List<String> encodings(EnrolledCertificate certificate) {
        List<String> encodings = new ArrayList<>();
        try {
            for (X509Certificate each : certificate.chain()) encodings.add(Bytes.base64(each.getEncoded()));
        } catch (CertificateEncodingException error) {
            throw new IllegalStateException("a certificate that was decoded can be encoded", error);
        }
        return encodings;
    }

    private static String list(List<String> texts) {
        List<String> quoted = new ArrayList<>();
        for (String text : texts) quoted.add(Json.quote(text));
        return "[" + String.join(",", quoted) + "]";
    }
}
