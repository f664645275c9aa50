# The course in a container, from Debian's packages:
#
#     docker build -t ranklings --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu .
#     docker run -it --rm --shm-size=1g --security-opt seccomp=unconfined -v "$PWD/exercises:/home/student/course/exercises" ranklings
#
# Without the argument pip takes torch with CUDA, some gigabytes. Docker's own seccomp profile forbids the namespaces
# that bubblewrap makes: without the last option but one grading goes on by resource limits alone, and says so.
FROM debian:bookworm-slim AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates git make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --shell /bin/bash student \
    && install -d -o student -g student /home/student/course
USER student
WORKDIR /home/student/course

FROM tools AS course
COPY --chown=student:student . .
ARG PIP_EXTRA_INDEX_URL
RUN make list
CMD ["bash"]
