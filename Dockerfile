# The image is one file that needs no other: the program with CLP linked in, beside the certificates it trusts and a user
# to run as. There is no shell and no package in it. docs/decisions/0019-image.md says why.
#
#   docker build --build-arg VERSION=1.2.3 --build-arg COMMIT=$(git rev-parse --short=12 HEAD) -t shardonnay:1.2.3 .

# The Debian whose CLP the tests run with.
FROM golang:1.26-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates coinor-libclp-dev gfortran zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
ARG VERSION=0.0.0-dev
ARG COMMIT=unknown
# netgo, osusergo: what glibc does by loading libraries while it runs, Go does itself. timetzdata: the time zones of
# stop.pause. What follows -static is what CLP's LAPACK is written in.
RUN go build -trimpath -buildvcs=false -tags netgo,osusergo,timetzdata \
        -ldflags "-s -w -X github.com/shardonnay/shardonnay/internal/version.number=${VERSION} \
            -X github.com/shardonnay/shardonnay/internal/version.commit=${COMMIT} \
            -linkmode external -extldflags '-static -lgfortran -lquadmath -lstdc++ -lm'" \
        -o /image/shardonnay ./cmd/shardonnay \
    && /image/shardonnay version
RUN mkdir -p /image/etc/ssl/certs /image/usr/share/doc \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'shardonnay:x:65532:65532:shardonnay:/:/nowhere' >/image/etc/passwd \
    && echo 'shardonnay:x:65532:' >/image/etc/group \
    && for package in coinor-libclp1 coinor-libcoinutils3v5 liblapack3 libgcc-s1 libc6; do \
        cp --dereference --parents "/usr/share/doc/$package/copyright" /image/; \
    done

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
EXPOSE 9750
# Asks the address of http.listen; give it the same environment as the daemon where that is not the default.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10s CMD ["/shardonnay", "health"]
ENTRYPOINT ["/shardonnay"]
CMD ["run"]
