package org.attestgate.trustclient;

import java.io.IOException;

/** What the operator says of the enrolment service and of the app there. A value never changes. */
public final class EnrolmentSettings {
    private final EnrolmentServiceAddress service;
    private final ClientDataForm form;
    private final boolean attestsCertificateKey;
    private final PlayIntegrity integrity;
    private final boolean isIntegrityForBindings;

    private EnrolmentSettings(
        EnrolmentServiceAddress service, ClientDataForm form, boolean attestsCertificateKey, PlayIntegrity integrity,
        boolean isIntegrityForBindings) {
        this.service = service;
        this.form = form;
        this.attestsCertificateKey = attestsCertificateKey;
        this.integrity = integrity;
        this.isIntegrityForBindings = isIntegrityForBindings;
    }

    /** Creates the settings of an app with {@code client_data: nonce-and-tag} and {@code certificate_key: any}. */
    public EnrolmentSettings(EnrolmentServiceAddress service) {
        this(service, ClientDataForm.NONCE_AND_TAG, false, null, false);
    }

    /** Returns the settings for another {@code client_data}. */
    public EnrolmentSettings withForm(ClientDataForm other) {
        return new EnrolmentSettings(service, other, attestsCertificateKey, integrity, isIntegrityForBindings);
    }

    /**
     * Returns the settings for {@code certificate_key: attested}. An attestation is for one nonce, so each renewal
     * makes a new certificate key, except in the form {@code DSR}.
     */
    public EnrolmentSettings withAttestedCertificateKey() {
        return new EnrolmentSettings(service, form, true, integrity, isIntegrityForBindings);
    }

    /**
     * Returns the settings for an app with {@code play_integrity}.
     *
     * @param source gives a token for the initialization
     * @param isForBindings whether it gives one for each key binding too: {@code each_binding: true}
     */
    public EnrolmentSettings withPlayIntegrity(PlayIntegrity source, boolean isForBindings) {
        return new EnrolmentSettings(service, form, attestsCertificateKey, source, isForBindings);
    }

    public EnrolmentServiceAddress service() {
        return service;
    }

    public ClientDataForm form() {
        return form;
    }

    public boolean attestsCertificateKey() {
        return attestsCertificateKey;
    }

    /** Returns the token for the initialization, or null without a source. */
    String integrityForInitialization(String nonce) throws IOException {
        return integrity == null ? null : integrity.token(nonce);
    }

    /** Returns the token for a key binding, or null where none is needed. */
    String integrityForBinding(String nonce) throws IOException {
        return isIntegrityForBindings ? integrityForInitialization(nonce) : null;
    }
}
