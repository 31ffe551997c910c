package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLHandshakeException;
import org.attestgate.trustclient.software.SoftwareKeyMint;
import org.attestgate.trustclient.software.SoftwareKeystore;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class AttestedClientTest {
    /** Answers from a list, and records the proofs. */
    private static final class Script implements AttestedClient.Transport<GatewayAnswer> {
        final Queue<GatewayAnswer> answers;
        final List<String> proofs = new ArrayList<>();
        int discarded;

        Script(GatewayAnswer... answers) {
            this.answers = new ArrayDeque<>(Arrays.asList(answers));
        }

        @Override
        public GatewayAnswer fetchChallenge() {
            return answers.remove();
        }

        @Override
        public GatewayAnswer send(ProofFields fields) {
            StringBuilder proof = new StringBuilder();
            for (AttestedRequest.Field line : fields.lines()) {
                proof.append(line.name()).append(": ").append(line.value()).append('\n');
            }
            proofs.add(proof.toString());
            return answers.remove();
        }

        @Override
        public GatewayAnswer parse(GatewayAnswer response) {
            return response;
        }

        @Override
        public void discard(GatewayAnswer response) {
            discarded++;
        }
    }

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private final AttestedRequest request = new AttestedRequest("GET", RequestTarget.parse("https://a/"));
    private AttestedClient client;

    @Before
    public void makeClient() throws Exception {
        SoftwareKeystore keystore = new SoftwareKeystore(
            folder.newFolder(), new SoftwareKeyMint(folder.newFolder(), "org.example.app"));
        keystore.generateKey("key", Attestor.Purpose.PROOFS, new byte[32]);
        long[] counter = {41};
        client = new AttestedClient(
            new HardwareKey(keystore, "key", () -> ++counter[0]), () -> Samples.TIME);
    }

    @Test
    public void eachSendingHasItsOwnProof() throws IOException {
        Script script = new Script(
            Samples.answer(204, null, "first"), Samples.answer(401, "challenge_required", "second"),
            Samples.answer(200, null, null));
        assertEquals(200, client.perform(request, false, script).status());
        assertEquals(2, script.proofs.size());
        assertTrue(script.proofs.get(0).startsWith("Attest-Proof-Counter: 42\nSignature-Input: attest=(\"@method\" "));
        assertTrue(script.proofs.get(0).contains(";nonce=\"first\";alg=\"ecdsa-p256-sha256\";"));
        assertTrue(script.proofs.get(1).startsWith("Attest-Proof-Counter: 43\n"));
        assertTrue(script.proofs.get(1).contains(";nonce=\"second\";"));
        assertEquals(1, script.discarded);
    }

    @Test
    public void theGatewaysClockCountsForLaterRequestsToo() throws IOException {
        Script script = new Script(
            Samples.answer(204, null, "first"),
            Samples.answer(401, "proof_stale", null, "Fri, 21 Nov 2025 02:53:20 GMT"),
            Samples.answer(200, null, null), Samples.answer(200, null, null));
        client.perform(request, false, script);
        client.perform(request, false, script);
        assertTrue(script.proofs.get(0).contains(";created=" + Samples.TIME + ";"));
        assertTrue(script.proofs.get(1).contains(";created=" + (Samples.TIME + 3_600) + ";"));
        assertTrue(script.proofs.get(2).contains(";created=" + (Samples.TIME + 3_600) + ";"));
    }

    @Test
    public void withoutAChallengeNothingIsSent() {
        Script script = new Script(Samples.answer(403, "device_revoked", null));
        AttestedClientError error =
            assertThrows(AttestedClientError.class, () -> client.perform(request, true, script));
        assertEquals("device_revoked", error.answer().denial());
        assertEquals(0, script.proofs.size());
    }

    @Test
    public void anAppEnrolsAgainAfterWhatEnrollingCanHelp() {
        assertTrue(Samples.answer(401, "device_unknown", null).needsEnrolment());
        assertTrue(Samples.answer(403, "device_mismatch", null).needsEnrolment());
        IOException[] helped = {
            new AttestorFault(AttestorFault.Reason.KEY_LOST),
            new IOException(new AttestorFault(AttestorFault.Reason.KEY_LOST)),
            new AttestedClientError(Samples.answer(401, "device_unknown", null)),
            new SSLHandshakeException("Received fatal alert: certificate_revoked"),
            new IOException(new SSLException(
                "Read error: error:10000414:SSL routines:OPENSSL_internal:SSLV3_ALERT_CERTIFICATE_REVOKED")),
        };
        for (IOException error : helped) assertTrue(error.toString(), AttestedClient.needsEnrolment(error));
        IOException[] others = {
            new IOException("certificate_revoked"), new SSLException((String) null), new SSLException("timeout"),
            new AttestorFault(AttestorFault.Reason.UNAVAILABLE),
            new AttestedClientError(Samples.answer(403, "device_revoked", null)),
        };
        for (IOException error : others) assertFalse(error.toString(), AttestedClient.needsEnrolment(error));
        assertFalse(Samples.answer(403, "device_revoked", null).needsEnrolment());
        assertFalse(Samples.answer(200, null, null).needsEnrolment());
    }
}
