package org.attestgate.trustclient;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.attestgate.trustclient.EnrolmentExchange.Action;
import org.attestgate.trustclient.EnrolmentExchange.Action.Kind;
import org.attestgate.trustclient.EnrolmentRecord.Step;
import org.attestgate.trustclient.EnrolmentRequest.Endpoint;
import org.junit.Test;

public class EnrolmentExchangeTest {
    private static final long NOW = Samples.TIME;
    private static final EnrolmentServiceAddress SERVICE = new EnrolmentServiceAddress("https://enrol.example.org/");
    private static final String NONCE = "AQEAAAAAawGriAdpD9qQexAfvUl8wlLZ";
    private static final String TAG = "AAAAAAAAAAAAAAAAAAAAAA";
    private static final List<byte[]> CHAIN = Arrays.asList(new byte[] {1}, new byte[] {2});
    private static final byte[] POINT = new byte[65];
    private static final byte[] SIGNATURE = {0x30, 6, 2, 1, 1, 2, 1, 2};

    private static EnrolmentAnswer answer(int status, String content) {
        return new EnrolmentAnswer(status, "Fri, 21 Nov 2025 02:53:20 GMT", null, Bytes.utf8(content));
    }

    private static EnrolmentAnswer nonce() {
        return answer(200, "{\"nonce\":\"" + NONCE + "\"}");
    }

    private static EnrolmentAnswer refusal(int status, String code, String retryAfter) {
        return new EnrolmentAnswer(status, null, retryAfter, Bytes.utf8("{\"error\":\"" + code + "\"}"));
    }

    private static EnrolmentExchange exchange(EnrolmentRecord record) {
        return new EnrolmentExchange(record, ClientDataForm.NONCE_AND_TAG);
    }

    private static EnrolmentRecord initialized() {
        return new EnrolmentRecord(SERVICE).keyMade(TAG).attested(new byte[] {'x'}).initialized();
    }

    private static void assertSends(Endpoint endpoint, Action action) {
        assertEquals(Kind.SEND, action.kind);
        assertEquals(endpoint, action.request.endpoint());
    }

    /** Continues up to the key binding that was sent. */
    private static void bind(EnrolmentExchange exchange, Action first) {
        assertSends(Endpoint.NONCE, first);
        assertEquals(Kind.PROVIDE_KEY, exchange.answered(nonce(), NOW).kind);
        assertEquals(Kind.ASSERT, exchange.keyProvided(POINT, null, null, null).kind);
        assertEquals(Kind.SIGN, exchange.asserted(7, SIGNATURE, NOW).kind);
        assertSends(Endpoint.KEY_BINDING, exchange.signed(SIGNATURE));
    }

    private static void assertFails(EnrolmentAdvice advice, Action action) {
        assertEquals(Kind.FAIL, action.kind);
        assertEquals(advice, action.failure.advice());
    }

    @Test
    public void aPhoneIsAttestedThenBound() {
        EnrolmentExchange exchange = exchange(new EnrolmentRecord(SERVICE));
        assertEquals(Kind.MAKE_KEY, exchange.begin().kind);
        assertSends(Endpoint.NONCE, exchange.keyMade(TAG));
        assertEquals(Step.KEY_MADE, exchange.record().step());
        Action attest = exchange.answered(nonce(), NOW);
        assertEquals(Kind.ATTEST, attest.kind);
        assertArrayEquals(Bytes.sha256(Bytes.utf8(NONCE + TAG)), attest.challenge);
        Action initialize = exchange.attested(CHAIN, null);
        assertSends(Endpoint.INITIALIZATION, initialize);
        assertEquals("POST https://enrol.example.org/instance-initialization",
            initialize.request.method() + " " + initialize.request.url());
        assertEquals(
            "{\"nonce\":\"" + NONCE + "\",\"hardware_key_tag\":\"" + TAG + "\",\"key_attestation\":[\"AQ\",\"Ag\"]}",
            Bytes.text(initialize.request.content()));
        assertEquals(Step.ATTESTED, exchange.record().step());
        assertSends(Endpoint.NONCE, exchange.answered(answer(204, ""), NOW));
        assertEquals(Step.INITIALIZED, exchange.record().step());
        Action provide = exchange.answered(nonce(), NOW);
        assertEquals(Kind.PROVIDE_KEY, provide.kind);
        assertArrayEquals(Bytes.sha256(Bytes.utf8(NONCE + TAG)), provide.challenge);
        Action assertion = exchange.keyProvided(POINT, CHAIN, "e30.e30.AAAA", null);
        assertEquals(
            "{\"nonce\":\"" + NONCE + "\",\"jwk_thumbprint\":\"" + P256.thumbprint(POINT) + "\",\"counter\":7}",
            Bytes.text(assertion.clientData(7)));
        Action sign = exchange.asserted(7, SIGNATURE, NOW);
        String claims = Bytes.text(Bytes.decodeBase64URL(Bytes.text(sign.message).split("\\.")[1]));
        // By the service's clock, which is an hour ahead.
        assertTrue(claims, claims.contains("\"iat\":" + (NOW + 3_600) + ",\"exp\":" + (NOW + 3_900) + ","));
        assertTrue(
            claims, claims.contains(",\"counter\":7,\"mtls_key_attestation\":[\"AQ\",\"Ag\"],\"admission_token\":"));
        assertFalse(claims, claims.contains("\"key_attestation\""));
        assertSends(Endpoint.KEY_BINDING, exchange.signed(SIGNATURE));
    }

    @Test
    public void theChallengeHasTheFormOfTheApp() {
        EnrolmentNonce nonce = EnrolmentNonce.parse(NONCE);
        assertArrayEquals(Bytes.utf8(NONCE), ClientDataForm.NONCE.challenge(nonce, TAG));
        assertArrayEquals(
            Bytes.sha256(Bytes.decodeBase64URL(NONCE), Bytes.utf8("KEYPAIR_MTLS")),
            ClientDataForm.DSR.challenge(nonce, TAG));
    }

    @Test
    public void anUnansweredInitializationIsSentAgainWithTheSameBytes() {
        EnrolmentRecord attested = new EnrolmentRecord(SERVICE).keyMade(TAG).attested(Bytes.utf8("{}"));
        EnrolmentExchange exchange = exchange(attested);
        Action first = exchange.begin();
        assertSends(Endpoint.INITIALIZATION, first);
        assertArrayEquals(Bytes.utf8("{}"), first.request.content());
        // The nonce has expired: whether the request had arrived is seen by a key binding.
        bind(exchange, exchange.answered(refusal(403, "invalid_request", null), NOW));
        assertEquals(Kind.MAKE_KEY, exchange.answered(refusal(404, "not_found", null), NOW).kind);
        assertEquals(Step.BEGUN, exchange.record().step());

        // An updated system is attested by a new key.
        exchange = exchange(attested);
        exchange.begin();
        assertEquals(Kind.MAKE_KEY, exchange.answered(refusal(403, "os_outdated", null), NOW).kind);
    }

    @Test
    public void eachRemedyIsTriedOnce() {
        EnrolmentExchange exchange = exchange(initialized());
        bind(exchange, exchange.begin());
        bind(exchange, exchange.answered(refusal(403, "invalid_request", null), NOW));
        assertFails(EnrolmentAdvice.GIVE_UP, exchange.answered(refusal(403, "invalid_request", null), NOW));

        exchange = exchange(initialized());
        bind(exchange, exchange.begin());
        assertEquals(Kind.MAKE_KEY, exchange.answered(refusal(404, "not_found", null), NOW).kind);
        exchange.keyMade(TAG);
        exchange.answered(nonce(), NOW);
        exchange.attested(CHAIN, null);
        assertFails(EnrolmentAdvice.GIVE_UP, exchange.answered(refusal(403, "invalid_request", null), NOW));
    }

    @Test
    public void aRefusedAttestationIsNotSentAgainUnlessTheServiceFailed() {
        Object[][] rows = {
            {403, "integrity_check_error", Step.BEGUN}, {400, "bad_request", Step.BEGUN},
            {503, "temporarily_unavailable", Step.ATTESTED},
        };
        for (Object[] row : rows) {
            EnrolmentExchange exchange = exchange(new EnrolmentRecord(SERVICE).keyMade(TAG));
            exchange.begin();
            exchange.answered(nonce(), NOW);
            exchange.attested(CHAIN, null);
            assertEquals(Kind.FAIL, exchange.answered(refusal((int) row[0], (String) row[1], null), NOW).kind);
            assertEquals(Arrays.toString(row), row[2], exchange.record().step());
        }
        EnrolmentExchange exchange = exchange(initialized());
        bind(exchange, exchange.begin());
        assertFails(EnrolmentAdvice.GIVE_UP, exchange.answered(refusal(400, "bad_request", null), NOW));
        assertEquals(Step.INITIALIZED, exchange.record().step());
    }

    @Test
    public void anOutdatedSystemOrAppIsAttestedAgainOnceAndThenUpdated() {
        Object[][] rows = {
            {"os_outdated", EnrolmentAdvice.UPDATE_SYSTEM}, {"integrity_check_error", EnrolmentAdvice.UPDATE},
        };
        for (Object[] row : rows) {
            EnrolmentAnswer refusal = refusal(403, (String) row[0], null);
            EnrolmentExchange exchange = exchange(initialized().bound());
            bind(exchange, exchange.begin());
            assertEquals(Kind.MAKE_KEY, exchange.answered(refusal, NOW).kind);
            exchange.keyMade(TAG);
            exchange.answered(nonce(), NOW);
            exchange.attested(CHAIN, null);
            assertFails((EnrolmentAdvice) row[1], exchange.answered(refusal, NOW));
            assertEquals(Step.BEGUN, exchange.record().step());
        }
    }

    @Test
    public void theAdviceFollowsTheCode() {
        Object[][] rows = {
            {503, "temporarily_unavailable", Endpoint.NONCE, "5", EnrolmentAdvice.LATER},
            {500, "server_error", Endpoint.KEY_BINDING, null, EnrolmentAdvice.LATER},
            {408, "bad_request", Endpoint.KEY_BINDING, null, EnrolmentAdvice.LATER},
            {403, "integrity_check_error", Endpoint.INITIALIZATION, null, EnrolmentAdvice.UPDATE},
            {403, "integrity_check_error", Endpoint.KEY_BINDING, null, EnrolmentAdvice.NEW_HARDWARE_KEY},
            {403, "invalid_request", Endpoint.INITIALIZATION, null, EnrolmentAdvice.NEW_HARDWARE_KEY},
            {403, "invalid_request", Endpoint.KEY_BINDING, null, EnrolmentAdvice.NEW_NONCE},
            {403, "invalid_request", Endpoint.KEY_BINDING, "60", EnrolmentAdvice.AWAIT_APPROVAL},
            {403, "os_outdated", Endpoint.INITIALIZATION, null, EnrolmentAdvice.UPDATE_SYSTEM},
            {403, "os_outdated", Endpoint.KEY_BINDING, null, EnrolmentAdvice.NEW_HARDWARE_KEY},
            {404, "not_found", Endpoint.KEY_BINDING, null, EnrolmentAdvice.NEW_HARDWARE_KEY},
            {404, "not_found", Endpoint.NONCE, null, EnrolmentAdvice.GIVE_UP},
            {400, "bad_request", Endpoint.KEY_BINDING, null, EnrolmentAdvice.GIVE_UP},
            {422, "validation_error", Endpoint.INITIALIZATION, null, EnrolmentAdvice.GIVE_UP},
            {502, "unknown", Endpoint.NONCE, null, EnrolmentAdvice.LATER},
            {429, "unknown", Endpoint.NONCE, null, EnrolmentAdvice.LATER},
            {403, "unknown", Endpoint.NONCE, null, EnrolmentAdvice.GIVE_UP},
        };
        for (Object[] row : rows) {
            EnrolmentRefusal refusal = refusal((int) row[0], (String) row[1], (String) row[3]).refusal();
            assertEquals(Arrays.toString(row), row[4], refusal.advice((Endpoint) row[2]));
        }
    }

    @Test
    public void whatTheServiceOrTheKeystoreDoesWrongEndsTheEnrolment() {
        EnrolmentExchange exchange = exchange(initialized());
        exchange.begin();
        assertEquals(
            EnrolmentFailure.Reason.ANSWER_UNREADABLE, exchange.answered(answer(200, "{}"), NOW).failure.reason());

        exchange = exchange(initialized());
        exchange.begin();
        exchange.answered(nonce(), NOW);
        assertEquals(
            EnrolmentFailure.Reason.ADMISSION_TOKEN_MALFORMED,
            exchange.keyProvided(POINT, null, "a\".b.c", null).failure.reason());

        exchange = exchange(initialized());
        exchange.begin();
        exchange.answered(nonce(), NOW);
        exchange.keyProvided(POINT, null, null, null);
        exchange.asserted(1, SIGNATURE, NOW);
        assertEquals(
            EnrolmentFailure.Reason.SIGNATURE_UNREADABLE, exchange.signed(new byte[] {1}).failure.reason());
        EnrolmentExchange over = exchange;
        assertThrows(IllegalStateException.class, () -> over.keyMade(TAG));
    }

    @Test
    public void tokensOfGooglePlayAreForTheNonceAndTheTagInEveryForm() {
        String expected = Bytes.base64URL(Bytes.sha256(Bytes.utf8(NONCE + TAG)));
        String token = "e30.AA.AA.AA.AA";
        for (ClientDataForm form : ClientDataForm.values()) {
            EnrolmentExchange exchange = new EnrolmentExchange(new EnrolmentRecord(SERVICE), form);
            exchange.begin();
            exchange.keyMade(TAG);
            assertEquals(expected, exchange.answered(nonce(), NOW).integrityNonce);
            String content = Bytes.text(exchange.attested(CHAIN, token).request.content());
            assertTrue(content, content.endsWith(",\"play_integrity_token\":\"" + token + "\"}"));
            exchange.answered(answer(204, ""), NOW);
            assertEquals(expected, exchange.answered(nonce(), NOW).integrityNonce);
            exchange.keyProvided(POINT, null, null, token);
            String message = Bytes.text(exchange.asserted(7, SIGNATURE, NOW).message);
            String claims = Bytes.text(Bytes.decodeBase64URL(message.split("\\.")[1]));
            assertTrue(claims, claims.contains(",\"play_integrity_token\":\"" + token + "\",\"cnf\""));
        }
        for (String malformed : Arrays.asList("", "a.b.c", "e30.AA.AA.AA.\"", new String(new char[16_385]))) {
            EnrolmentExchange exchange = exchange(initialized());
            exchange.begin();
            exchange.answered(nonce(), NOW);
            assertEquals(
                EnrolmentFailure.Reason.INTEGRITY_TOKEN_MALFORMED,
                exchange.keyProvided(POINT, null, null, malformed).failure.reason());
        }
    }

    @Test
    public void aLostKeyIsReplacedOnceAndAnyOtherFailureEnds() {
        EnrolmentExchange exchange = exchange(initialized());
        exchange.begin();
        exchange.answered(nonce(), NOW);
        AttestorFault lost = new AttestorFault(AttestorFault.Reason.KEY_LOST);
        assertEquals(Kind.MAKE_KEY, exchange.attestorFailed(lost).kind);
        exchange.keyMade(TAG);
        exchange.answered(nonce(), NOW);
        assertEquals(lost, exchange.attestorFailed(lost).failure.fault());

        exchange = exchange(new EnrolmentRecord(SERVICE));
        exchange.begin();
        exchange.keyMade(TAG);
        exchange.answered(nonce(), NOW);
        AttestorFault unavailable = new AttestorFault(AttestorFault.Reason.UNAVAILABLE);
        assertEquals(EnrolmentFailure.Reason.ATTESTOR, exchange.attestorFailed(unavailable).failure.reason());
        assertEquals(Step.KEY_MADE, exchange.record().step());
    }

    @Test
    public void recordsSurviveTheirEncoding() {
        EnrolmentRecord begun = new EnrolmentRecord(SERVICE);
        EnrolmentRecord attested = begun.keyMade(TAG).attested(Bytes.utf8("{\"a\":\"b\\\\\"}"));
        for (EnrolmentRecord record : Arrays.asList(
            begun, begun.keyMade(TAG), attested, attested.initialized(), attested.initialized().bound())) {
            Phone phone = Phone.parse(new Phone(record).withNextKey("next").json());
            assertEquals(record.json(), phone.record().json());
            assertEquals("next", phone.nextKey());
        }
        for (String json : Arrays.asList(
            "", "{}", "{\"record\":{},\"retired_keys\":[]}", new Phone(begun).json().replace("begun", "bound"),
            new Phone(attested).json().replace("attested", "bound"),
            new Phone(begun.keyMade(TAG)).json().replace("AA", "A="))) {
            assertNull(json, Phone.parse(json));
        }
    }

    @Test
    public void addressesAreThoseThatTheServiceAccepts() {
        assertEquals("https://a/b", new EnrolmentServiceAddress("https://a/b/").provider());
        for (String url : Arrays.asList(
            "", "https://", "http://a", "https://a?b", "https://a/\"", "https://a//b//",
            "https://" + String.join("", Collections.nCopies(1_024, "a")))) {
            assertThrows(url, IllegalArgumentException.class, () -> new EnrolmentServiceAddress(url));
        }
    }
}
