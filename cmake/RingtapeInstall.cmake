# install rules and the package files behind find_package(ringtape)
