# A verdict in the form of the reference system: what is wrong with the device, and what with the request.
package reference.api

import rego.v1

token := input.deviceTokenPayload

device_violations contains {"errorCode": "device_token_invalid", "errorDescription": "The device is not known."} if {
	not input.deviceTokenValid
}

device_violations contains violation if {
	token.type == "IOS"
	not regex.match(`^(17|26)(\.[0-9]+)*$`, token.deviceHealth.deviceAttributes.systemVersion)
	violation := {
		"errorCode": "device_system_version_not_match",
		"errorDescription": sprintf("iOS %v is not admitted.", [token.deviceHealth.deviceAttributes.systemVersion]),
	}
}

device_violations contains violation if {
	token.type == "ANDROID"
	not token.deviceHealth.deviceAttributes.build.version.securityPatch >= data.least_patch_level
	violation := {"errorCode": "device_patch_level_not_match", "errorDescription": "The patch level is too low."}
}

device_violations contains violation if {
	token.type == "ANDROID"
	not token.deviceHealth.keyIdAttestation.attestationSecurityLevel in [1, 2]
	violation := {"errorCode": "device_security_level_not_match", "errorDescription": "The key is not in hardware."}
}

security_violations contains {"errorCode": "client_address_listed", "description": "The client's address is listed."} if {
	input.request.clientIP in data.listed_addresses
}

security_violations contains {"errorCode": "tenant_not_match", "description": "The tenant is not admitted."} if {
	some tenant in input.request.headers["X-Tenant"]
	not tenant in data.tenants
}

security_violations contains {"errorCode": "form_not_match", "description": "The form of the answer is not admitted."} if {
	some form in input.request.query.form
	form != "json"
}

default allow_device := false

allow_device if count(device_violations) == 0

default allow_request := false

allow_request if count(security_violations) == 0

default allow := false

allow if {
	allow_device
	allow_request
}

verdict := {
	"allow": allow,
	"device": {"allow": allow_device, "violations": device_violations},
	"security": {"allow": allow_request, "violations": security_violations},
}
