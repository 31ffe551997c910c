package org.attestgate.trustclient;

/** What the operator says of the enrolment service and of the app there. A value never changes. */
public final class EnrolmentSettings {
    private final EnrolmentServiceAddress service;
    private final ClientDataForm form;
    private final boolean attestsCertificateKey;

    private EnrolmentSettings(EnrolmentServiceAddress service, ClientDataForm form, boolean attestsCertificateKey) {
        this.service = service;
        this.form = form;
        this.attestsCertificateKey = attestsCertificateKey;
    }

    /** Creates the settings of an app with {@code client_data: nonce-and-tag} and {@code certificate_key: any}. */
    public EnrolmentSettings(EnrolmentServiceAddress service) {
        this(service, ClientDataForm.NONCE_AND_TAG, false);
    }

    /** Returns the settings for another {@code client_data}. */
    public EnrolmentSettings withForm(ClientDataForm other) {
        return new EnrolmentSettings(service, other, attestsCertificateKey);
    }

    /**
     * Returns the settings for {@code certificate_key: attested}. An attestation is for one nonce, so each renewal
     * makes a new certificate key, except in the form {@code DSR}.
     */
    public EnrolmentSettings withAttestedCertificateKey() {
        return new EnrolmentSettings(service, form, true);
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
}
