# SPDX-License-Identifier: Apache-2.0
set(PROTO_TRANSPORT_SOURCES codec.c grpc.c h2.c h2_session.c http1.c http1_connections.c http1_page.c http_answer.c http_client.c otlp_service.c
    tls.c tls_bridge.c tls_gate.c tls_handshake.c tls_session.c)
set(PROTO_TRANSPORT_LIBRARIES PkgConfig::ZLIB PkgConfig::ZSTD PkgConfig::NGHTTP2 PkgConfig::MHD
    PkgConfig::GNUTLS)
