package org.attestgate.trustclient;

import java.io.IOException;

/** What the operator says of the enrolment service and of the app there. A value never changes. */
public final class EnrolmentSettings {
    private final EnrolmentServiceAddress service;
    private final ClientDataForm form;
    private final boolean attestsCertificateKey;
    private final PlayIntegrity integrity;
    private final boolean isIntegrityForBindings;
    private final String devices;

    private EnrolmentSettings(
        EnrolmentServiceAddress service, ClientDataForm form, boolean attestsCertificateKey, PlayIntegrity integrity,
        boolean isIntegrityForBindings, String devices) {
        this.service = service;
        this.form = form;
        this.attestsCertificateKey = attestsCertificateKey;
        this.integrity = integrity;
        this.isIntegrityForBindings = isIntegrityForBindings;
        this.devices = devices;
    }

    /** Creates the settings of an app with {@code client_data: nonce-and-tag} and {@code certificate_key: any}. */
    public EnrolmentSettings(EnrolmentServiceAddress service) {
        this(service, ClientDataForm.NONCE_AND_TAG, false, null, false, null);
    }

    /** Returns the settings for another {@code client_data}. */
    public EnrolmentSettings withForm(ClientDataForm other) {
        return new EnrolmentSettings(
            service, other, attestsCertificateKey, integrity, isIntegrityForBindings, devices);
    }

    /**
     * Returns the settings for {@code certificate_key: attested}. An attestation is for one nonce, so each renewal
     * makes a new certificate key, except in the form {@code DSR}.
     */
    public EnrolmentSettings withAttestedCertificateKey() {
        return new EnrolmentSettings(service, form, true, integrity, isIntegrityForBindings, devices);
    }

    /**
     * Returns the settings for an app with {@code play_integrity}.
     *
     * @param source gives a token for the initialization
     * @param isForBindings whether it gives one for each key binding too: {@code each_binding: true}
     */
    public EnrolmentSettings withPlayIntegrity(PlayIntegrity source, boolean isForBindings) {
        return new EnrolmentSettings(service, form, attestsCertificateKey, source, isForBindings, devices);
    }

    /**
     * Returns the settings for a service with a listener for enrolled devices: there certificates are renewed and
     * rotated, and a {@link DeviceClient} works.
     *
     * @param url its base URL, in the form of {@link EnrolmentServiceAddress}
     */
    public EnrolmentSettings withDevices(String url) {
        String base = new EnrolmentServiceAddress(url).url();
        return new EnrolmentSettings(
            service, form, attestsCertificateKey, integrity, isIntegrityForBindings, base);
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

    /** The base URL of the listener for enrolled devices, without a slash at its end, or null. */
    public String devices() {
        return devices;
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
