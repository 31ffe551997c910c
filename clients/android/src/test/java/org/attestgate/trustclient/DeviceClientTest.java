package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import org.attestgate.trustclient.software.SoftwareKeyMint;
import org.attestgate.trustclient.software.SoftwareKeystore;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class DeviceClientTest {
    private static final String URL = "https://devices.example.org";
    private static final String TAG = "AAAAAAAAAAAAAAAAAAAAAA";
    private static final String ID = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";
    private static final EnrolmentServiceAddress SERVICE = new EnrolmentServiceAddress("https://enrol.example.org");

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private final Queue<EnrolmentAnswer> answers = new ArrayDeque<>();
    private final List<EnrolmentRequest> requests = new ArrayList<>();
    private SoftwareKeystore keystore;
    private ClientIdentity identity;
    private File keys;
    private DeviceClient client;

    @Before
    public void makeClient() throws Exception {
        keys = folder.newFolder();
        keystore = new SoftwareKeystore(keys, new SoftwareKeyMint(folder.newFolder(), "org.example.app"));
        keystore.generateKey("key", Attestor.Purpose.PROOFS, new byte[32]);
        identity = new ClientIdentity(keystore.privateKey("key"), Collections.emptyList());
        long[] counter = {41};
        client = new DeviceClient(
            new EnrolmentSettings(SERVICE).withDevices(URL + "/"), keystore, TAG,
            new HardwareKey(keystore, "key", () -> ++counter[0]), identity, this::answer, () -> Samples.TIME);
    }

    private EnrolmentAnswer answer(EnrolmentRequest request) {
        requests.add(request);
        return answers.remove();
    }

    private void script(EnrolmentAnswer... next) {
        answers.addAll(Arrays.asList(next));
    }

    private static EnrolmentAnswer answer(int status, String content) {
        return new EnrolmentAnswer(status, null, null, Bytes.utf8(content));
    }

    private static EnrolmentAnswer challenge(int status, String content, String nonce) {
        return new EnrolmentAnswer(
            status, null, null, Collections.singletonList(Samples.acceptSignature(nonce, "")), Bytes.utf8(content));
    }

    private static EnrolmentAnswer nonce() {
        return answer(200, "{\"nonce\":\"EBESExQVFhcYGRobHB0eHw\"}");
    }

    private List<String> lines() {
        List<String> lines = new ArrayList<>();
        for (EnrolmentRequest request : requests) {
            assertTrue(request.presentsCertificate() && request.identity() == identity);
            lines.add(request.method() + " " + request.url());
        }
        return lines;
    }

    private String field(int number, String name) {
        for (AttestedRequest.Field field : requests.get(number).fields()) {
            if (field.name().equals(name)) return field.value();
        }
        return null;
    }

    @Test
    public void aNewPostureGoesWithAChainSignalsAndAProof() throws Exception {
        String content = "{\"posture\":{\"platform\":\"android\"},\"device_token\":\"e30.e30.AAAA\"}";
        script(nonce(), challenge(204, "", "a"), answer(200, content));
        String[] before = keys.list();
        AttestedPosture posture = client.attest("{\"systemVersion\":\"16\"}");
        assertEquals("e30.e30.AAAA", posture.deviceToken());
        assertEquals(content, posture.json());
        assertEquals(
            Arrays.asList(
                "GET " + URL + "/nonce", "GET " + URL + "/.well-known/attestgate/challenge",
                "POST " + URL + "/attestation"),
            lines());
        String sent = Bytes.text(requests.get(2).content());
        String start = "{\"nonce\":\"EBESExQVFhcYGRobHB0eHw\",\"signals\":{\"systemVersion\":\"16\"},";
        assertTrue(sent, sent.startsWith(start + "\"key_attestation\":[\"MII") && sent.endsWith("\"]}"));
        assertNull(field(0, "Signature"));
        assertEquals("application/json", field(2, "Content-Type"));
        assertNotNull(field(2, "Content-Digest"));
        assertEquals("42", field(2, "Attest-Proof-Counter"));
        // The key of the evidence is gone.
        assertEquals(before.length, keys.list().length);
    }

    @Test
    public void signalsThatAreNoObjectAreNotSent() {
        String tooLong = "{\"a\":\"" + new String(new char[4_096]).replace('\0', 'a') + "\"}";
        for (String signals : new String[] {"", "[]", "{}}", "{\"a\":1},\"nonce\":{", tooLong}) {
            script(nonce());
            EnrolmentFailure failure = assertThrows(EnrolmentFailure.class, () -> client.attest(signals));
            assertEquals(EnrolmentFailure.Reason.SIGNALS_MALFORMED, failure.reason());
        }
        assertEquals(5, requests.size());
    }

    @Test
    public void aProofIsMadeAgainForANewChallenge() throws Exception {
        script(
            nonce(), challenge(204, "", "a"), challenge(401, "{\"error\":\"challenge_required\"}", "b"),
            answer(200, "{\"posture\":{}}"));
        assertNull(client.attest(null).deviceToken());
        assertTrue(field(3, "Signature-Input").contains("nonce=\"b\""));
        assertEquals("43", field(3, "Attest-Proof-Counter"));
    }

    @Test
    public void theDevicesOfAPersonAreListed() throws Exception {
        String other = "{\"id\":\"b\",\"platform\":\"ios\",\"app\":\"T.a\",\"status\":\"REVOKED\",\"created_at\":4,"
            + "\"current\":false}";
        script(answer(200, "[{\"id\":\"" + ID + "\",\"platform\":\"android\",\"app\":\"android:a\","
            + "\"status\":\"ACTIVE\",\"created_at\":5,\"current\":true,\"more\":1}," + other + "]"));
        List<DeviceInstance> listed = client.instances();
        assertEquals(2, listed.size());
        DeviceInstance first = listed.get(0);
        assertEquals(ID + " android android:a ACTIVE 5",
            first.id() + " " + first.platform() + " " + first.app() + " " + first.status() + " " + first.createdAt());
        assertTrue(first.isCurrent() && !listed.get(1).isCurrent());
        for (String content : new String[] {"{}", "[{\"id\":1}]", "[1]", "[],\"a\":[]", ""}) {
            script(answer(200, content));
            EnrolmentFailure failure = assertThrows(EnrolmentFailure.class, () -> client.instances());
            assertEquals(EnrolmentFailure.Reason.ANSWER_UNREADABLE, failure.reason());
        }
    }

    @Test
    public void aLostPhoneIsRevokedAndOnlyAnIdGoesIntoTheUrl() throws Exception {
        script(challenge(204, "", "a"), answer(204, ""));
        client.revoke(ID);
        assertEquals("PATCH " + URL + "/instances/" + ID, lines().get(1));
        assertEquals("{\"status\":\"REVOKED\"}", Bytes.text(requests.get(1).content()));
        assertNotNull(field(1, "Signature"));
        for (String id : new String[] {"", "a", ID + "/..", "../" + ID}) {
            EnrolmentFailure failure = assertThrows(EnrolmentFailure.class, () -> client.revoke(id));
            assertEquals(EnrolmentFailure.Reason.INSTANCE_MALFORMED, failure.reason());
        }
        assertEquals(2, requests.size());
    }

    @Test
    public void aRefusalHasItsCodeAndAdvice() {
        String[][] refusals = {
            {"403", "invalid_request", "GIVE_UP"}, {"404", "not_found", "GIVE_UP"},
            {"503", "temporarily_unavailable", "LATER"}, {"403", "device_mismatch", "GIVE_UP"},
            {"429", "rate_limited", "LATER"}};
        for (String[] each : refusals) {
            answers.clear();
            script(answer(Integer.parseInt(each[0]), "{\"error\":\"" + each[1] + "\"}"));
            EnrolmentFailure failure = assertThrows(EnrolmentFailure.class, () -> client.instances());
            assertEquals(each[0] + " " + each[1] + " (" + each[2] + ")", failure.getMessage());
            assertEquals(failure.refusal().code() == null ? each[1] : null, failure.refusal().denial());
        }
        script(answer(401, "{\"error\":\"device_unknown\"}"));
        AttestedClientError error = assertThrows(AttestedClientError.class, () -> client.revoke(ID));
        assertTrue(AttestedClient.needsEnrolment(error));
    }

    @Test
    public void aBoundPhoneRenewsThereWithItsCertificateAndAnotherDoesNot() {
        EnrolmentRecord initialized =
            new EnrolmentRecord(SERVICE).keyMade(TAG).attested(new byte[] {'x'}).initialized();
        for (EnrolmentRecord record : new EnrolmentRecord[] {initialized, initialized.bound()}) {
            EnrolmentRequest request =
                new EnrolmentExchange(record, ClientDataForm.NONCE_AND_TAG, URL).begin().request;
            boolean isBound = record.step() == EnrolmentRecord.Step.BOUND;
            assertEquals((isBound ? URL : SERVICE.url()) + "/nonce", request.url());
            assertEquals(isBound, request.presentsCertificate());
        }
        assertFalse(new EnrolmentExchange(initialized.bound(), ClientDataForm.NONCE_AND_TAG).begin()
            .request.presentsCertificate());
    }
}
