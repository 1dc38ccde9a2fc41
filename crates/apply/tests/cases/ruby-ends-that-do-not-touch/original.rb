module Api
  module Params
    def first_key(hash)
      hash.keys.first
    end
  end

  module Routes
    def path(name)
      "/#{name}"
    end
  end
end
