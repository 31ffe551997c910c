package org.attestgate.trustclient;

import java.io.File;
import java.io.IOException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * A client that enrols: for the first time, to renew the certificate, and to rotate its key. It keeps the progress, the
 * certificate and the counters in a directory, so that an app may end at any moment.
 *
 * <p>Create one per app, in one process. One enrolment runs at a time; other threads wait for it.
 */
public final class EnrolmentClient {
    /** The app's HTTP library. */
    public interface Transport {
        /**
         * Sends the request, with {@link EnrolmentRequest#identity} in TLS if it has one. It throws if there was no
         * response; the progress is saved.
         */
        EnrolmentAnswer send(EnrolmentRequest request) throws IOException;
    }

    /** The app's source of admission tokens, such as a login. */
    public interface Admission {
        /**
         * Returns a token for a certificate key, or null if the service requires none.
         *
         * @param thumbprint the thumbprint of the key (RFC 7638), for {@code cnf.jkt}
         */
        String token(String thumbprint) throws IOException;
    }

    /** How long before its expiry a certificate is renewed, in seconds: a week. */
    public static final long RENEWAL = 7 * 86_400L;

    private static final int TAG_LENGTH = 16;
    private static final Admission NO_TOKEN = thumbprint -> null;

    private final EnrolmentSettings settings;
    private final Attestor attestor;
    private final PhoneDirectory directory;
    private final Transport transport;
    private final LongSupplier clock;
    private final SecureRandom random = new SecureRandom();
    /**
     * The hardware keys that were used, by their tags: there is one value for each key, because there is one counter.
     */
    private final Map<String, HardwareKey> hardwareKeys = new HashMap<>();
    private Phone phone;

    /**
     * Creates a client with the system's clock.
     *
     * @param directory a directory for this client alone, outside of backups: {@code Context.getNoBackupFilesDir()}
     */
    public EnrolmentClient(EnrolmentSettings settings, Attestor attestor, File directory, Transport transport)
        throws IOException {
        this(settings, attestor, directory, transport, () -> System.currentTimeMillis() / 1000);
    }

    /**
     * Creates a client.
     *
     * @param clock returns the time in seconds since 1970. It need not be right: the service's Date corrects it.
     */
    public EnrolmentClient(
        EnrolmentSettings settings, Attestor attestor, File directory, Transport transport, LongSupplier clock)
        throws IOException {
        this.settings = settings;
        this.attestor = attestor;
        this.directory = new PhoneDirectory(directory);
        this.transport = transport;
        this.clock = clock;
        phone = this.directory.load(settings.service());
    }

    /** Returns the enrolled phone. Null if it must enrol, because a key is missing or the certificate ends soon. */
    public synchronized EnrolledPhone phone() throws IOException {
        EnrolledCertificate certificate = phone.certificate();
        if (certificate == null || certificate.expiresAt() - RENEWAL < clock.getAsLong()) return null;
        try {
            return enrolled(certificate);
        } catch (AttestorFault fault) {
            if (fault.reason() == AttestorFault.Reason.KEY_LOST) return null;
            throw fault;
        }
    }

    /** Enrols, or renews the certificate, where the service requires no admission token. */
    public EnrolledPhone enrol() throws IOException {
        return enrol(NO_TOKEN);
    }

    /**
     * Enrols, or renews the certificate. Continues an enrolment that was interrupted.
     *
     * @throws EnrolmentFailure if the service or the keystore refuses
     * @throws IOException if the transport or the disk fails: try again later
     */
    public synchronized EnrolledPhone enrol(Admission admission) throws IOException {
        return run(admission);
    }

    /** As {@link #enrol(Admission)}, with a new certificate key. The old one stays valid for the service's overlap. */
    public synchronized EnrolledPhone rotate(Admission admission) throws IOException {
        prepareKey();
        return run(admission);
    }

    private EnrolledPhone run(Admission admission) throws IOException {
        EnrolledCertificate certificate = phone.certificate();
        // An expired certificate is renewed without presenting it.
        boolean isValid = certificate != null && certificate.expiresAt() > clock.getAsLong();
        EnrolmentExchange exchange =
            new EnrolmentExchange(phone.record(), settings.form(), isValid ? settings.devices() : null);
        EnrolmentExchange.Action action = exchange.begin();
        while (true) {
            keep(exchange.record());
            switch (action.kind) {
                case FINISH: return finish(action.certificate);
                case FAIL: throw action.failure;
                default:
            }
            try {
                action = perform(action, exchange, admission);
            } catch (AttestorFault fault) {
                action = exchange.attestorFailed(fault);
            }
        }
    }

    private EnrolmentExchange.Action perform(
        EnrolmentExchange.Action action, EnrolmentExchange exchange, Admission admission) throws IOException {
        switch (action.kind) {
            case MAKE_KEY: return exchange.keyMade(newTag());
            case ATTEST:
                String integrityToken = settings.integrityForInitialization(action.integrityNonce);
                return exchange.attested(generateHardwareKey(action.tag, action.challenge), integrityToken);
            case PROVIDE_KEY:
                List<byte[]> chain = provideCertificateKey(action.challenge);
                byte[] point = attestor.point(bindingAlias());
                return exchange.keyProvided(
                    point, chain, admission.token(P256.thumbprint(point)),
                    settings.integrityForBinding(action.integrityNonce));
            case ASSERT:
                HardwareKey key = hardwareKey(action.tag);
                long counter = key.nextCounter();
                return exchange.asserted(counter, key.signature(action.clientData(counter)), clock.getAsLong());
            case SIGN: return exchange.signed(attestor.signature(bindingAlias(), action.message));
            case SEND: return exchange.answered(transport.send(presenting(action.request)), clock.getAsLong());
            default: throw new IllegalStateException("the exchange has ended");
        }
    }

    private EnrolmentRequest presenting(EnrolmentRequest request) throws IOException {
        return request.presentsCertificate() ? request.presenting(identity(phone.certificate())) : request;
    }

    private ClientIdentity identity(EnrolledCertificate certificate) throws IOException {
        return new ClientIdentity(attestor.privateKey(phone.key()), certificate.chain());
    }

    /** Returns a client at the listener for enrolled devices. Create one after each enrolment. */
    public synchronized DeviceClient devices() throws IOException {
        EnrolledCertificate certificate = phone.certificate();
        if (settings.devices() == null || certificate == null) {
            throw new IllegalStateException("the phone is not enrolled, or the settings name no such listener");
        }
        HardwareKey key = hardwareKey(phone.keyTag());
        return new DeviceClient(settings, attestor, phone.keyTag(), key, identity(certificate), transport, clock);
    }

    // The hardware key.

    private List<byte[]> generateHardwareKey(String tag, byte[] challenge) throws IOException {
        boolean isCertificateKey = settings.form() == ClientDataForm.DSR;
        Attestor.Purpose purpose = isCertificateKey ? Attestor.Purpose.TLS : Attestor.Purpose.PROOFS;
        List<byte[]> chain = attestor.generateKey(Phone.hardwareAlias(tag), purpose, challenge);
        FileCounter counter = FileCounter.create(directory.counter(tag));
        hardwareKeys.put(tag, new HardwareKey(attestor, Phone.hardwareAlias(tag), counter));
        return chain;
    }

    private HardwareKey hardwareKey(String tag) throws IOException {
        HardwareKey known = hardwareKeys.get(tag);
        if (known != null) return known;
        FileCounter counter = FileCounter.open(directory.counter(tag));
        try {
            HardwareKey opened = new HardwareKey(attestor, Phone.hardwareAlias(tag), counter);
            hardwareKeys.put(tag, opened);
            return opened;
        } catch (AttestorFault fault) {
            counter.close();
            throw fault;
        }
    }

    private String newTag() {
        byte[] tag = new byte[TAG_LENGTH];
        random.nextBytes(tag);
        return Bytes.base64URL(tag);
    }

    // The certificate key.

    /** The key that the enrolment in progress binds: a prepared one, or the present one for a renewal. */
    private String bindingAlias() {
        return phone.nextKey() != null ? phone.nextKey() : phone.key();
    }

    /**
     * Makes the certificate key, unless the present one is to be renewed.
     *
     * @return its attestation, or null
     */
    private List<byte[]> provideCertificateKey(byte[] challenge) throws IOException {
        String tag = phone.record().tag();
        boolean isBound = phone.key() != null && tag.equals(phone.keyTag());
        if (settings.form() == ClientDataForm.DSR && !isBound) {
            // The attested key itself is bound first.
            save(phone.withNextKey(Phone.hardwareAlias(tag)));
            return null;
        }
        boolean isHardwareKey = Phone.hardwareAlias(tag).equals(bindingAlias());
        boolean isAttested = settings.attestsCertificateKey() && !isHardwareKey;
        // A key stays bound to its first hardware key, and an attestation is for one nonce.
        if (phone.nextKey() == null && (!isBound || isAttested)) prepareKey();
        if (isAttested) return attestor.generateKey(phone.nextKey(), Attestor.Purpose.TLS, challenge);
        if (phone.nextKey() != null && !exists(phone.nextKey())) {
            attestor.generateKey(phone.nextKey(), Attestor.Purpose.TLS, null);
        }
        return null;
    }

    /** Chooses the name of a new certificate key, unless an interrupted enrolment has chosen one. */
    private void prepareKey() throws IOException {
        if (phone.nextKey() == null) save(phone.withNextKey(Phone.ALIAS + newTag()));
    }

    private boolean exists(String alias) throws AttestorFault {
        try {
            attestor.point(alias);
            return true;
        } catch (AttestorFault fault) {
            if (fault.reason() == AttestorFault.Reason.KEY_LOST) return false;
            throw fault;
        }
    }

    // The result.

    private EnrolledPhone finish(EnrolledCertificate certificate) throws IOException {
        Phone before = phone;
        save(before.bound(bindingAlias(), certificate));
        // Requests in progress may still use the keys that were just replaced, but not older ones.
        List<String> used = new ArrayList<>(phone.retired());
        used.addAll(Arrays.asList(phone.key(), Phone.hardwareAlias(phone.record().tag())));
        for (String alias : before.retired()) if (!used.contains(alias)) delete(alias);
        return enrolled(certificate);
    }

    private EnrolledPhone enrolled(EnrolledCertificate certificate) throws IOException {
        return new EnrolledPhone(hardwareKey(phone.keyTag()), identity(certificate), certificate.expiresAt());
    }

    /**
     * Stores the progress. A hardware key that was replaced before it was bound is deleted, and so is the certificate
     * key that was meant for it: the service may have bound it, and its answer was lost.
     */
    private void keep(EnrolmentRecord record) throws IOException {
        Phone before = phone;
        String tag = before.record().tag();
        if (tag == null || tag.equals(record.tag())) {
            save(before.with(record));
            return;
        }
        save(before.with(record).withNextKey(null));
        if (!tag.equals(before.keyTag())) delete(Phone.hardwareAlias(tag));
        if (before.nextKey() != null) delete(before.nextKey());
    }

    /** Deletes a key, and its counter if it is a hardware key. */
    private void delete(String alias) throws IOException {
        String tag = alias.substring(Phone.ALIAS.length());
        attestor.deleteKey(alias);
        directory.deleteCounter(tag);
        hardwareKeys.remove(tag);
    }

    private void save(Phone next) throws IOException {
        if (!next.json().equals(phone.json())) directory.store(next);
        phone = next;
    }
}
