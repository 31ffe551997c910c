# A rule of the reference system about what a device token says of the phone.
package reference.model

import rego.v1

attributes := input.deviceTokenPayload.deviceHealth.deviceAttributes

device_violations contains violation if {
	not attributes.systemModel in data.models
	violation := {
		"errorCode": "device_system_model_not_match",
		"errorDescription": sprintf("The model %v is not admitted.", [attributes.systemModel]),
	}
}

default allow := false

allow if {
	input.deviceTokenValid
	count(device_violations) == 0
}

verdict := {
	"allow": allow,
	"device": {"allow": allow, "violations": device_violations},
	"security": {"allow": true, "violations": []},
}
