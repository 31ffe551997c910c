package org.attestgate.trustclient;

import java.util.Map;

/**
 * The progress of a phone with one service. {@link Enrolment} stores it durably.
 *
 * <p>A record never changes: each step makes another.
 */
public final class EnrolmentRecord {
    public enum Step {
        /** There is no hardware key. */
        BEGUN,
        /** The hardware key has a name. It may exist, but is not attested yet. */
        KEY_MADE,
        /** The key is attested. The content was sent or must be sent, always with the same bytes. */
        ATTESTED,
        /** The service knows the key, but no certificate key of it. */
        INITIALIZED,
        /** A certificate was issued. */
        BOUND;

        private String text() {
            return this == KEY_MADE ? "key-made" : name().toLowerCase(java.util.Locale.ROOT);
        }
    }

    private final EnrolmentServiceAddress service;
    private final Step step;
    private final String tag;
    private final byte[] initialization;

    private EnrolmentRecord(EnrolmentServiceAddress service, Step step, String tag, byte[] initialization) {
        this.service = service;
        this.step = step;
        this.tag = tag;
        this.initialization = initialization;
    }

    /** Creates a record without progress. */
    public EnrolmentRecord(EnrolmentServiceAddress service) {
        this(service, Step.BEGUN, null, null);
    }

    public EnrolmentServiceAddress service() {
        return service;
    }

    public Step step() {
        return step;
    }

    /** The name of the hardware key, {@code hardware_key_tag}, in base64url. Null in {@code BEGUN}. */
    public String tag() {
        return tag;
    }

    /** The content of {@code POST /instance-initialization}. Null except in {@code ATTESTED}. */
    byte[] initialization() {
        return initialization;
    }

    EnrolmentRecord begun() {
        return new EnrolmentRecord(service, Step.BEGUN, null, null);
    }

    EnrolmentRecord keyMade(String newTag) {
        return new EnrolmentRecord(service, Step.KEY_MADE, newTag, null);
    }

    EnrolmentRecord attested(byte[] content) {
        return new EnrolmentRecord(service, Step.ATTESTED, tag, content);
    }

    EnrolmentRecord initialized() {
        return new EnrolmentRecord(service, Step.INITIALIZED, tag, null);
    }

    EnrolmentRecord bound() {
        return new EnrolmentRecord(service, Step.BOUND, tag, null);
    }

    /** Returns the record as JSON. It contains no secret, but a pseudonym of the phone. */
    String json() {
        String json = "{\"url\":" + Json.quote(service.url()) + ",\"provider\":" + Json.quote(service.provider())
            + ",\"step\":" + Json.quote(step.text());
        if (tag != null) json += ",\"hardware_key\":" + Json.quote(tag);
        if (initialization != null) json += ",\"initialization\":" + Json.quote(Bytes.text(initialization));
        return json + "}";
    }

    /** Decodes the result of {@link #json}. Returns null for anything else: an app without its record enrols again. */
    static EnrolmentRecord parse(Map<String, Object> form) {
        String url = Json.text(form, "url");
        String provider = Json.text(form, "provider");
        String tag = Json.text(form, "hardware_key");
        String initialization = Json.text(form, "initialization");
        if (url == null || provider == null || tag != null && Bytes.decodeBase64URL(tag) == null) return null;
        for (Step step : Step.values()) {
            if (!step.text().equals(Json.text(form, "step"))) continue;
            if ((step == Step.BEGUN) != (tag == null)) return null;
            if ((step == Step.ATTESTED) != (initialization != null)) return null;
            return new EnrolmentRecord(
                new EnrolmentServiceAddress(url, provider), step, tag,
                initialization == null ? null : Bytes.utf8(initialization));
        }
        return null;
    }
}
