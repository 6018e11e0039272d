return {
  {
    name = "its status",
    args = { secret = "testing123" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "0c2a0032000102030405060708090a0b0c0d0e0f5012afe02f1d799c816fdb696192f453c972200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0026c99a66470d64c04e45225a88cb91a41050124f544e2831a50af05542d6f8a1ccabb5" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "c99a66470d64c04e45225a88cb91a410" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = {
      status = "ok",
      summary = "it answers in 4 ms",
      metrics = {
        ["time{host=localhost,port=1812}"] = { value = 0.004, unit = "s", warn = "1", crit = "5" },
      },
    },
  },
  {
    name = "a login",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a002dfe6241536cf2bbbf6b21ad7c1066f4435012e06b457b1d67cb6e57859bf527f246e0120748656c6c6f" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "fe6241536cf2bbbf6b21ad7c1066f443" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "e06b457b1d67cb6e57859bf527f246e0" },
      },
    },
    expect = {
      status = "ok",
      summary = "accept for watch: Hello, in 4 ms",
      metrics = {
        ["time{host=localhost,port=1812}"] = { value = 0.004, unit = "s", warn = "1", crit = "5" },
      },
    },
  },
  {
    name = "a login, answered without a Message-Authenticator",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0014b7021c538b0fe2e565c5ae0de07ee65e" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "b7021c538b0fe2e565c5ae0de07ee65e" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "it is slow",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes", warn = "0.001" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0026c99a66470d64c04e45225a88cb91a41050124f544e2831a50af05542d6f8a1ccabb5" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "c99a66470d64c04e45225a88cb91a410" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = { status = "warning" },
  },
  {
    name = "it refuses the account",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "032a002eb265fc8cda05c70f63f00407995a7d0b5012eba986ac79a1f8568fd7f891be2e17ac12046e6f12047065" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "b265fc8cda05c70f63f00407995a7d0b" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "eba986ac79a1f8568fd7f891be2e17ac" },
      },
    },
    expect = { status = "critical", summary = "reject for watch: nope, in 4 ms" },
  },
  {
    name = "as it should",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes", expect = "reject" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "032a0026354c7b0e06413e373b7c9a46599917f650125591120ca65a9c59eb0dfff884bb4941" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "354c7b0e06413e373b7c9a46599917f6" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "5591120ca65a9c59eb0dfff884bb4941" },
      },
    },
    expect = { status = "ok" },
  },
  {
    name = "it lets in whom it should not",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes", expect = "reject" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0026c99a66470d64c04e45225a88cb91a41050124f544e2831a50af05542d6f8a1ccabb5" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "c99a66470d64c04e45225a88cb91a410" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = { status = "critical", summary = "accept for watch, in 4 ms" },
  },
  {
    name = "a challenge",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "0b2a00264b4c8b668705fe851db6ea41e7ec1f01501271b89fa1ea125595a5fc3da6ce7c7da2" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "4b4c8b668705fe851db6ea41e7ec1f01" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "71b89fa1ea125595a5fc3da6ce7c7da2" },
      },
    },
    expect = { status = "critical", summary = "a challenge for watch, in 4 ms" },
  },
  {
    name = "an answer that somebody else has signed",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0026a331b369355d5263b392ebdf9f55b60e501229a50528f994551038d5a054790e7680" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "e9fedf91d68a56690488853c1543cd48" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = { status = "critical", summary = "localhost signs its answer with another shared secret", metrics = {} },
  },
  {
    name = "the answer to another question",
    args = { secret = "testing123", user = "watch", password = "a password of 23 bytes" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "012a005b000102030405060708090a0b0c0d0e0f5012278bd1c01fefb604b114a85344f689a6010777617463680222f7ce79ab078e0d756222274b6634b0b875fb9fa10c0b9ac437735f80fa88c319200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022b00262878f4021a3e77927781a5b273226ec2501250565d077f1bc78af8ef27c5c7d5a940" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { once = true, value = "96ee09ca74fd7a1a104607240014828b" },
        { once = true, value = "5599e6d569789ac437735f80fa88c319" },
        { value = "2878f4021a3e77927781a5b273226ec2" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "278bd1c01fefb604b114a85344f689a6" },
        { once = true, value = "50565d077f1bc78af8ef27c5c7d5a940" },
      },
    },
    expect = { status = "critical", summary = "localhost answers another question", metrics = {} },
  },
  {
    name = "an answer of another kind",
    args = { secret = "testing123" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "0c2a0032000102030405060708090a0b0c0d0e0f5012afe02f1d799c816fdb696192f453c972200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "052a0026611e6b13213c36ecc3fe2067d1af1399501261104035e50a69aec22a2e473363712e" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "611e6b13213c36ecc3fe2067d1af1399" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
        { once = true, value = "61104035e50a69aec22a2e473363712e" },
      },
    },
    expect = { status = "critical", summary = "the server answers with the code 5, which is none of a login" },
  },
  {
    name = "no RADIUS",
    args = { secret = "testing123" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "0c2a0032000102030405060708090a0b0c0d0e0f5012afe02f1d799c816fdb696192f453c972200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "68656c6c6f" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "a7db5aafcffd7b3dd498159087d59dc7" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
      },
    },
    expect = { status = "critical", summary = "localhost sends no RADIUS answer", metrics = {} },
  },
  {
    name = "broken attributes",
    args = { secret = "testing123" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "0c2a0032000102030405060708090a0b0c0d0e0f5012afe02f1d799c816fdb696192f453c972200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022a0016000000000000000000000000000000001201" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "931377a471a0637bcd3cab3ee301b13b" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
      },
    },
    expect = { status = "critical", summary = "localhost sends broken attributes", metrics = {} },
  },
  {
    name = "a length beyond the datagram",
    args = { secret = "testing123" },
    host = {
      udp = { args = { { host = "localhost", port = 1812, hex = true, send = "0c2a0032000102030405060708090a0b0c0d0e0f5012afe02f1d799c816fdb696192f453c972200c6d6f6e69746f72696e67" } }, value = { address = "127.0.0.1", seconds = 0.004, received = "022affff00000000000000000000000000000000" } },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "2f07d353238f3c8f06b7a4461e750467" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
      },
    },
    expect = { status = "critical", summary = "localhost sends no RADIUS answer", metrics = {} },
  },
  {
    name = "no answer",
    args = { secret = "testing123" },
    host = {
      udp = { code = "timeout", text = "127.0.0.1 did not answer within 5 s" },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "c99a66470d64c04e45225a88cb91a410" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = { status = "critical", summary = "localhost does not answer 3 questions: it is down, or this host is none of its clients", metrics = {} },
  },
  {
    name = "the policy forbids it",
    args = { secret = "testing123" },
    host = {
      udp = { code = "denied", text = "localhost port 1812 is not granted to udp" },
      ["crypto.random"] = { args = { 17 }, value = "000102030405060708090a0b0c0d0e0f2a" },
      ["crypto.digest"] = {
        { value = "c99a66470d64c04e45225a88cb91a410" },
      },
      ["crypto.hmac"] = {
        { once = true, value = "afe02f1d799c816fdb696192f453c972" },
        { once = true, value = "4f544e2831a50af05542d6f8a1ccabb5" },
      },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
