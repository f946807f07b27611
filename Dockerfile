# Two images, for those who run containers; docs/operations.md has the commands. Each holds one binary, the C library and
# certificates: no shell, and nothing runs as root.
#
#   docker build --tag annals .                         # the local program: every route, its data in the volume /data
#   docker build --tag annals-relay --target relay .    # the relay of Discord's gateway, for a deployed stack
#
# Both need BuildKit, which Docker has used since 23.0.

ARG RUST=rust:1.94.1-slim-bookworm
ARG RUNTIME=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST} AS source
WORKDIR /src
COPY . .

FROM source AS build-relay
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --package annals-discord-relay --bin relay \
    && mkdir /out && cp target/release/relay /out/

FROM source AS build-annals
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --profile program --package annals --bin annals \
    && mkdir /out && mkdir -m 700 /out/data && cp target/program/annals /out/

FROM ${RUNTIME} AS relay
COPY --from=build-relay /out/relay /relay
# SIGTERM ends it: it stores what it has received, and hands the session over.
ENTRYPOINT ["/relay"]

FROM ${RUNTIME} AS annals
COPY --from=build-annals /out/annals /annals
# A new volume takes its owner from this folder.
COPY --from=build-annals --chown=65532:65532 /out/data /data
# Outside loopback it needs HTTP_API_KEYS, and without it ends with an error that says so. SQLite's temporary files, in which a
# deletion copies the database, need a folder that can be written to.
ENV ANNALS_HOST=0.0.0.0 ANNALS_PORT=3000 ANNALS_DATA_DIR=/data SQLITE_TMPDIR=/data
EXPOSE 3000
VOLUME /data
# SIGTERM ends it, after the requests that it has; what is unanswered is answered after the next start.
ENTRYPOINT ["/annals"]
